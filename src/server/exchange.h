// Exchange: one request and its one answer. Made by the connection, handed by reference to the
// route's handler, gone when the handler ends. Loop thread only. Buffers nothing but what read_body
// is allowed to. An answer is sent once; what happens after a head went out can only close.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/blocking_pool.h"
#include "net/http.h"
#include "server/limits.h"
#include "service/audit.h"
#include "service/limiter.h"

namespace server {

using base::Error;
using base::ErrorCode;
using base::Result;
using net::Task;

using Headers = std::vector<std::pair<std::string_view, std::string>>;

// Where bodies get and lose their codings, and what one may become.
struct Coders {
  net::BlockingPool& pool;
  uint64_t inflated_bytes_max = kInflatedBytesMax;
};

class Exchange {
 public:
  Exchange(net::Stream& client, net::HttpReader& reader, const Coders& coders,
           wire::http::Request request, std::string request_id)
      : request_(std::move(request)),
        request_id_(std::move(request_id)),
        client_(client),
        reader_(reader),
        coders_(coders),
        keep_alive_(request_.keep_alive) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] const wire::http::Request& request() const { return request_; }
  [[nodiscard]] const std::string& request_id() const { return request_id_; }
  // What stood in the pattern's {braces}, decoded, in order.
  [[nodiscard]] const std::string& segment(size_t index) const { return segments_.at(index); }
  [[nodiscard]] size_t segment_count() const { return segments_.size(); }
  void set_segments(std::vector<std::string> segments) { segments_ = std::move(segments); }
  [[nodiscard]] const service::Caller& caller() const { return caller_; }
  void set_caller(service::Caller caller) { caller_ = std::move(caller); }
  // The caller, who is in that team, acts in it.
  void enter_team(std::string_view team) { caller_.enter(team); }
  // Where the client calls from.
  [[nodiscard]] const std::string& remote() const { return remote_; }
  void set_remote(std::string remote) { remote_ = std::move(remote); }
  // What the audit log is to say of this request. The route table gives the event; a handler adds
  // details, or takes the event away where a row is written already. The dispatcher adds the end
  // and records it.
  [[nodiscard]] service::AuditRecord& audit() { return audit_; }
  [[nodiscard]] const service::AuditRecord& audit() const { return audit_; }
  void note(std::string_view key, wire::json::Value value) {
    if (!audit_.event.empty()) {
      audit_.details[key] = std::move(value);
    }
  }
  void note(std::string_view key, std::string_view text) { note(key, wire::json::Value(text)); }
  void note(std::string_view key, const std::string& text) { note(key, std::string_view(text)); }
  [[nodiscard]] net::Stream& client() { return client_; }
  [[nodiscard]] net::HttpReader& reader() { return reader_; }
  [[nodiscard]] const Coders& coders() const { return coders_; }
  // The result of `work`, which codes or decodes one of `bytes` bytes so far: beside the loop where
  // these are many. Its references hold, since a job is never given up midway.
  template <typename Work>
  Task<std::invoke_result_t<Work&>> code(uint64_t bytes, Work work) {
    if (bytes <= kCodeOnLoopBytesMax) {
      co_return work();
    }
    co_return co_await coders_.pool.run(std::move(work));
  }

  // All parameters; unknown_field for one that is not in `known`.
  Result<void> check_parameters(std::initializer_list<std::string_view> known) const;
  // An integer parameter in [least, most]; `fallback` when absent.
  [[nodiscard]] Result<int64_t> integer_parameter(std::string_view name, int64_t least,
                                                  int64_t most, int64_t fallback) const;
  [[nodiscard]] Result<bool> flag_parameter(std::string_view name) const;

  // The whole body, its Content-Encoding taken off.
  Task<Result<std::string>> read_body(size_t bytes_max);
  // Tells a client that waits for it to send its body.
  Task<Result<void>> allow_body();

  Task<Result<void>> answer_json(int status, std::string body, Headers headers = {});
  Task<Result<void>> answer_text(int status, std::string_view type, std::string body);
  Task<Result<void>> answer_empty(int status, Headers headers = {});
  Task<Result<void>> answer_error(Error error);
  // The head of an answer whose body the handler writes by client().
  Task<Result<void>> begin_answer(wire::http::HeadBuilder head, int status);
  // The same with the whole body, in one write where it fits.
  Task<Result<void>> answer_whole(wire::http::HeadBuilder head, int status, std::string_view body);
  // 101: what comes behind the head is the handler's; the connection ends with it.
  Task<Result<void>> switch_protocols(wire::http::HeadBuilder head);
  // status line, X-Request-Id, nosniff and what is left of a rate; framing is the caller's.
  [[nodiscard]] wire::http::HeadBuilder start_head(int status) const;

  // Told in every head of the answer, where the token has a limit.
  void set_rate_left(const service::Limiter::Left& left) { rate_left_ = left; }

  [[nodiscard]] int status() const { return answered_; }  // 0: nothing was answered
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  // The client is gone: nothing is answered (499 in the log).
  void abandon() {
    answered_ = 499;
    keep_alive_ = false;
  }
  // How the command of this request ended, where the agent told.
  // Which container of the sandbox the request is to, where its body says so.
  void choose_container(std::string name) { container_ = std::move(name); }
  [[nodiscard]] const std::string& container() const { return container_; }
  void note_exit_code(int exit_code) { exit_code_ = exit_code; }
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  // An endless answer: a server that stops ends it at once. The handler watches its client.
  void mark_endless() { is_endless_ = true; }
  [[nodiscard]] bool is_endless() const { return is_endless_; }
  // After this answer the connection is closed.
  void close_after() { keep_alive_ = false; }

 private:
  [[nodiscard]] bool is_head() const { return request_.method == "HEAD"; }
  [[nodiscard]] bool leaves_too_much() const;
  void finish_head(wire::http::HeadBuilder& head, int status);

  wire::http::Request request_;
  std::string request_id_;
  std::vector<std::string> segments_;
  service::Caller caller_;
  std::string remote_;
  service::AuditRecord audit_;
  net::Stream& client_;
  net::HttpReader& reader_;
  const Coders& coders_;
  service::Limiter::Left rate_left_;
  bool keep_alive_;
  bool body_allowed_ = false;
  bool is_endless_ = false;
  int answered_ = 0;
  std::optional<int> exit_code_;
  std::string container_;
};

// `scope`: whether rows of all teams are asked for ("all").
Result<bool> scope_parameter(const Exchange& exchange);

// A boundary's errors in the API's words: what only our own code sees becomes internal,
// agent_failed or unavailable.
Error public_error(Error error);
// Whether it is the store's trouble, of which a caller is told no more than that.
bool is_of_store(const Error& error);

}  // namespace server
