#include "net/http.h"

#include <algorithm>

namespace net {
namespace {

// A small first read keeps an idle connection small; a body gets the large buffer.
constexpr size_t kHeadReadBytes = 4096;

}  // namespace

Task<Result<bool>> HttpReader::fill(Deadline deadline, size_t room) {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const size_t old_size = buffer_.size();
  // The room is not zeroed: it is written to by the kernel, and cut to what that wrote.
  buffer_.resize_and_overwrite(old_size + room, [](char*, size_t size) { return size; });
  const auto count =
      co_await stream_.read_some(std::span(buffer_.data() + old_size, room), deadline);
  buffer_.resize(old_size + (count ? *count : 0));
  if (!count) {
    co_return std::unexpected(count.error());
  }
  co_return *count > 0;
}

Task<Result<std::optional<std::string_view>>> HttpReader::read_head(Deadline idle,
                                                                    base::Milliseconds patience) {
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    if (buffer_.capacity() > 2 * kHeadReadBytes) {
      buffer_.shrink_to_fit();
    }
    begin_ = 0;
    if (head_size_ > 0) {
      // Behind a first message the next one is an answer to what was just sent, or comes after the
      // peer has read one: to look before it can be there would cost a system call.
      CO_RETURN_IF_ERROR(co_await stream_.wait_readable(idle));
    }
    CO_ASSIGN_OR_RETURN(const bool more, co_await fill(idle, kHeadReadBytes));
    if (!more) {
      co_return std::nullopt;
    }
  }
  const Deadline deadline = Deadline::after(patience);
  for (;;) {
    // Empty lines before a request are skipped (RFC 9112 2.2).
    while (std::string_view(buffer_).substr(begin_).starts_with("\r\n")) {
      begin_ += 2;
    }
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    CO_ASSIGN_OR_RETURN(const auto size, wire::http::find_head(rest));
    if (size) {
      head_size_ = *size;
      begin_ += *size;
      co_return rest.substr(0, *size);
    }
    const auto more = co_await fill(deadline, kHeadReadBytes);
    if (!more) {
      Error error = more.error();
      if (error.code == ErrorCode::deadline_exceeded) {
        error = Error{.code = ErrorCode::request_timeout,
                      .message = "the request's head did not arrive in time"};
      }
      co_return std::unexpected(std::move(error));
    }
    if (!*more) {
      co_return base::fail(ErrorCode::connection_closed, "the connection ended inside a head");
    }
  }
}

Task<Result<std::optional<wire::http::Request>>> HttpReader::read_request(
    Deadline idle, base::Milliseconds patience) {
  CO_ASSIGN_OR_RETURN(const auto head, co_await read_head(idle, patience));
  if (!head) {
    co_return std::nullopt;
  }
  CO_ASSIGN_OR_RETURN(auto request, wire::http::parse_request(*head));
  decoder_ = wire::http::BodyDecoder(request);
  co_return std::move(request);
}

Task<Result<wire::http::Response>> HttpReader::read_response(std::string_view method,
                                                             Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<base::Milliseconds>(
        deadline.is_never() ? std::chrono::hours(1)
                            : deadline.time() - std::chrono::steady_clock::now());
    CO_ASSIGN_OR_RETURN(const auto head,
                        co_await read_head(deadline, std::max(left, base::Milliseconds(1000))));
    if (!head) {
      co_return base::fail(ErrorCode::connection_closed, "the peer closed before it answered");
    }
    CO_ASSIGN_OR_RETURN(auto response, wire::http::parse_response(*head, method));
    if (response.status == 100) {
      continue;
    }
    decoder_ = wire::http::BodyDecoder(response);
    co_return std::move(response);
  }
}

Task<Result<std::string_view>> HttpReader::read_body(Deadline deadline, size_t room) {
  while (!decoder_.finished()) {
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    if (rest.empty()) {
      CO_ASSIGN_OR_RETURN(const bool more, co_await fill(deadline, room));
      if (!more) {
        CO_RETURN_IF_ERROR(decoder_.end_of_input());
      }
      continue;
    }
    CO_ASSIGN_OR_RETURN(const auto step, decoder_.next(rest));
    begin_ += step.consumed;
    if (!step.payload.empty()) {
      co_return step.payload;
    }
  }
  co_return std::string_view();
}

Task<Result<std::string>> HttpReader::read_whole_body(size_t bytes_max,
                                                      base::Milliseconds patience) {
  std::string body;
  for (;;) {
    if (decoder_.left() > bytes_max) {
      co_return base::fail(ErrorCode::body_too_large, "the body exceeds ", bytes_max, " bytes");
    }
    CO_ASSIGN_OR_RETURN(const auto piece, co_await read_body(Deadline::after(patience)));
    if (piece.empty()) {
      co_return body;
    }
    if (body.size() + piece.size() > bytes_max) {
      co_return base::fail(ErrorCode::body_too_large, "the body exceeds ", bytes_max, " bytes");
    }
    body += piece;
  }
}

Task<bool> HttpReader::drain_body(size_t bytes_max, base::Milliseconds patience,
                                  base::Milliseconds time_max) {
  size_t seen = 0;
  // A peer that drips what nobody wants does not hold a connection.
  const Deadline last = Deadline::after(time_max);
  while (!decoder_.finished() && seen <= bytes_max) {
    const auto next = std::min(last.time(), Deadline::after(patience).time());
    const auto piece = co_await read_body(Deadline::at(next));
    if (!piece) {
      co_return false;
    }
    seen += piece->size();
  }
  co_return decoder_.finished();
}

std::string HttpReader::take_buffered() {
  std::string rest = buffer_.substr(begin_);
  buffer_.clear();
  begin_ = 0;
  return rest;
}

Task<Result<void>> HttpWriter::write_message(std::string head, std::string_view body) {
  head_written_ = true;
  co_return co_await stream_.write_all(head, body, patience_);
}

Task<Result<void>> HttpWriter::write_head(std::string head) {
  head_written_ = true;
  co_return co_await stream_.write_all(head, patience_);
}

Task<Result<void>> HttpWriter::write_raw(std::string_view bytes) {
  return stream_.write_all(bytes, patience_);
}

Task<Result<void>> HttpWriter::write_chunk(std::string_view bytes) {
  const std::string head = wire::http::chunk_head(bytes.size());
  co_return co_await stream_.write_all(head, bytes, "\r\n", patience_);
}

Task<Result<void>> HttpWriter::finish_chunks() {
  return stream_.write_all(wire::http::kLastChunk, patience_);
}

}  // namespace net
