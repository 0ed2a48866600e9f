// For tests: a whole agent on a thread of its own behind a unix socket in a fresh folder, and a
// blocking client. Needs root (commands and files act as other users).
#pragma once

#include <boost/json/object.hpp>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "wire/http1.h"
#include "wire/json.h"

namespace agent {

struct Answer {
  int status = 0;
  wire::http::Head head;
  std::string body;
  bool whole = false;  // the body ended as the head said

  [[nodiscard]] wire::json::Object json() const;
  [[nodiscard]] std::string error_code() const;
  [[nodiscard]] std::string header(std::string_view name) const;
};

struct Asked {
  std::string method = "GET";
  std::string target;
  std::string body;
  std::string headers;  // "name: value\r\n"...
};

// One blocking connection.
class TestClient {
 public:
  explicit TestClient(const std::string& socket_path);
  void send(std::string_view bytes);
  void send(const Asked& asked);
  Answer receive(std::string_view method = "GET");
  // Reads what is there, waiting for it; false at the end.
  bool read_more();
  // Reads until the text has come, which stays for receive() and take(); false when the agent ends
  // the connection before.
  bool wait_for(std::string_view text);
  // Reads until that many bytes are there, or the end.
  void wait_for_bytes(size_t count);
  // What has come and was not taken yet.
  std::string take() { return std::exchange(buffer_, {}); }
  // The client's end of the stream, or all of it.
  void half_close();
  void close() { socket_.reset(); }

 private:
  base::Fd socket_;
  std::string buffer_;
};

class TestAgent {
 public:
  explicit TestAgent(Config config = {}, StreamPatience patience = {});
  ~TestAgent();
  TestAgent(const TestAgent&) = delete;
  TestAgent& operator=(const TestAgent&) = delete;

  Answer ask(const Asked& asked) const;
  // POST /run with that body, which must succeed.
  [[nodiscard]] wire::json::Object run(std::string_view body) const;
  // The same for a `command`.
  [[nodiscard]] wire::json::Object shell(std::string_view command) const;
  [[nodiscard]] Answer put(std::string_view path, std::string body,
                           std::string_view more = "") const;
  [[nodiscard]] Answer get(std::string_view path, std::string_view more = "") const;
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string socket_path() const { return folder_ + "/agent.sock"; }

 private:
  std::string folder_;
  std::function<void()> stop_;
  std::promise<void> stop_told_;  // the loop outlives the call that stops it
  std::thread thread_;
};

// What the chunks of an answer hold that may be cut off anywhere; `bytes` begins with its head.
std::string payload_of_chunks(std::string_view bytes);
// Waits until the condition holds; false after half a minute.
bool eventually(const std::function<bool()>& condition);
std::string text_of(const wire::json::Object& object, std::string_view name);
std::string json_text(std::string_view text);

}  // namespace agent
