// Exchange: one request and its one answer. Made by the connection, handed by reference to the
// route's handler, gone when the handler ends. Loop thread only. Buffers nothing but what read_body
// is allowed to. An answer is sent once; what happens after a head went out can only close.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http.h"
#include "server/limits.h"
#include "service/access.h"

namespace server {

using base::Error;
using base::ErrorCode;
using base::Result;
using net::Task;

using Headers = std::vector<std::pair<std::string_view, std::string>>;

class Exchange {
 public:
  Exchange(net::Stream& client, net::HttpReader& reader, wire::http::Request request,
           std::string request_id)
      : request_(std::move(request)),
        request_id_(std::move(request_id)),
        client_(client),
        reader_(reader),
        keep_alive_(request_.keep_alive) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] const wire::http::Request& request() const { return request_; }
  [[nodiscard]] const std::string& request_id() const { return request_id_; }
  // What stood in the pattern's {braces}, decoded, in order.
  [[nodiscard]] const std::string& segment(size_t index) const { return segments_.at(index); }
  void set_segments(std::vector<std::string> segments) { segments_ = std::move(segments); }
  [[nodiscard]] const service::Caller& caller() const { return caller_; }
  void set_caller(service::Caller caller) { caller_ = std::move(caller); }
  [[nodiscard]] net::Stream& client() { return client_; }
  [[nodiscard]] net::HttpReader& reader() { return reader_; }

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
  // status line, X-Request-Id and nosniff; framing is the caller's.
  [[nodiscard]] wire::http::HeadBuilder start_head(int status) const;

  [[nodiscard]] int status() const { return answered_; }  // 0: nothing was answered
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  // The client is gone: nothing is answered (499 in the log).
  void abandon() {
    answered_ = 499;
    keep_alive_ = false;
  }
  // An endless answer: a server that stops ends it at once. The handler watches its client.
  void mark_endless() { is_endless_ = true; }
  [[nodiscard]] bool is_endless() const { return is_endless_; }
  // After this answer the connection is closed.
  void close_after() { keep_alive_ = false; }

 private:
  [[nodiscard]] bool is_head() const { return request_.method == "HEAD"; }
  void finish_head(wire::http::HeadBuilder& head, int status);

  wire::http::Request request_;
  std::string request_id_;
  std::vector<std::string> segments_;
  service::Caller caller_;
  net::Stream& client_;
  net::HttpReader& reader_;
  bool keep_alive_;
  bool body_allowed_ = false;
  bool is_endless_ = false;
  int answered_ = 0;
};

// A boundary's errors in the API's words: what only our own code sees becomes internal,
// agent_failed or unavailable.
Error public_error(Error error);

}  // namespace server
