// A small real HTTP server for the CLI's tests: answers from a script, in order, and remembers what
// was asked. A thread of its own, joined by the destructor.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace cli {

struct ScriptedAnswer {
  int status = 200;
  std::string body;
  std::string headers;   // whole lines, each with its \r\n
  bool drop = false;     // closes instead of answering
  bool hang_up = false;  // sends half of the body, then closes
};

struct SeenRequest {
  std::string line;  // "GET /x HTTP/1.1"
  std::string head;
  std::string body;
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
  void serve_connection(int socket);

  std::mutex mutex_;
  std::deque<ScriptedAnswer> script_;
  std::vector<SeenRequest> seen_;
  base::Fd listener_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace cli
