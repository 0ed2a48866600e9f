// FakeAgent: an in-process agent for FakeEngine. It knows GET /healthz, GET /activity, POST /run
// of a handful of commands, and PUT, GET and HEAD of /files for single files in memory.
// Commands: true, false, echo ARGS, cat (gives stdin back), env, pwd, sleep SECONDS (ends early
// when the connection ends, which `cancelled_runs` counts), `sh -c "exit N"`, flood N (bytes);
// anything else is 127. POST /exec knows the same ones; POST /stream takes them as a command of
// words, and `break`, whose stream breaks off inside a line. A WebSocket of /sessions/... or
// /terminal is an echo of the bytes it is sent; a log that is followed says "line\n" and then
// nothing; any other request about sessions is answered with what it was:
// {"method","target","body"}. Loop thread only.
#pragma once

#include <map>
#include <string>

#include "model/sandbox.h"
#include "net/http.h"
#include "net/task_group.h"
#include "wire/json.h"

namespace engine {

class FakeAgent {
 public:
  FakeAgent(net::EventLoop& loop, model::ContainerSpec container)
      : loop_(loop), container_(std::move(container)), group_(loop) {}

  // Serves one connection until the peer closes it.
  void serve(base::Fd socket);
  // Ends all connections, as when PID 1 dies.
  net::Task<void> close();
  void cancel() { group_.cancel(); }

  [[nodiscard]] int runs() const { return runs_; }
  [[nodiscard]] int cancelled_runs() const { return cancelled_runs_; }
  // Requests that hold a stream open.
  [[nodiscard]] int streams() const { return streams_; }
  [[nodiscard]] std::map<std::string, std::string>& files() { return files_; }

 private:
  net::Task<void> serve_connection(base::Fd socket);
  net::Task<base::Result<void>> answer(net::Stream& stream, net::HttpReader& reader,
                                       wire::http::Request request);
  net::Task<base::Result<void>> answer_run(net::Stream& stream, net::HttpReader& reader);
  net::Task<base::Result<void>> answer_exec(net::Stream& stream, net::HttpReader& reader);
  net::Task<base::Result<void>> answer_stream(net::Stream& stream, net::HttpReader& reader);
  net::Task<base::Result<void>> answer_sessions(net::Stream& stream, net::HttpReader& reader,
                                                wire::http::Request request);
  net::Task<base::Result<void>> answer_files(net::Stream& stream, net::HttpReader& reader,
                                             wire::http::Request request);

  net::EventLoop& loop_;
  model::ContainerSpec container_;
  std::map<std::string, std::string> files_;
  int runs_ = 0;
  int runs_now_ = 0;
  int cancelled_runs_ = 0;
  int streams_ = 0;
  net::TaskGroup group_;
};

}  // namespace engine
