// A small real HTTP server for the CLI's tests: answers from a script, in order, and remembers what
// was asked. Threads of its own, joined by the
// destructor.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace cli {

// A WebSocket's answer: what the server sends, and when.
struct ScriptedFrames {
  std::string bytes;
  size_t after_requests = 0;  // once that many requests were seen in all
  size_t after_bytes = 0;     // and that many payload bytes came from the client
};

struct ScriptedAnswer {
  int status = 200;
  std::string body;
  std::string headers;   // whole lines, each with its \r\n
  bool drop = false;     // closes instead of answering
  bool hang_up = false;  // sends half of the body, then closes
  // Not empty: the answer is 101 and these; then it waits for the client's end. Other connections
  // are served meanwhile.
  std::vector<ScriptedFrames> frames;
};

struct SeenRequest {
  std::string line;  // "GET /x HTTP/1.1"
  std::string head;
  std::string body;  // of a WebSocket: the payloads that came, each with a line end
};

class ScriptedServer {
 public:
  explicit ScriptedServer(std::deque<ScriptedAnswer> script);
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer();

  [[nodiscard]] std::string url() const;
  std::vector<SeenRequest> seen();

 private:
  void serve();
  void serve_connection(base::Fd socket);
  void serve_frames(base::Fd socket, size_t request, ScriptedAnswer answer);
  void wait_and_send(int socket, size_t request, const std::vector<ScriptedFrames>& frames);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<size_t> left_;  // WebSockets whose client is gone
  std::deque<ScriptedAnswer> script_;
  std::vector<SeenRequest> seen_;
  base::Fd listener_;
  int port_ = 0;
  std::thread thread_;
  std::vector<std::thread> streams_;
};

}  // namespace cli
