#include "cli/session_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cli {

using base::ErrorCode;
using base::fail;
using std::chrono::milliseconds;

namespace {

constexpr size_t kReadBytes = 64UL * 1024;
// Read ahead while a request is on its way, and the most that one request carries.
constexpr size_t kPieceBytesMax = 256UL * 1024;
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kPauseMax{2000};
constexpr int kDoublingsMax = 6;

// Whether a read of standard input gives something now: bytes, its end or an error.
bool input_is_ready() {
  pollfd wait{STDIN_FILENO, POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

// The bytes there are; "" at the end (closed by whoever started us counts as that).
Result<std::string> read_input() {
  std::string bytes(kReadBytes, '\0');
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno != EBADF && errno != EIO) {  // EIO: the terminal is gone
      return base::fail_errno(errno, "read standard input");
    }
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
}

}  // namespace

Result<EarlyInput> read_early_input() {
  EarlyInput early;
  while (!early.ended && early.bytes.size() < kPieceBytesMax && input_is_ready()) {
    ASSIGN_OR_RETURN(const auto bytes, read_input());
    early.ended = bytes.empty();
    early.bytes += bytes;
  }
  return early;
}

int TerminalInput::add_waits(std::vector<pollfd>& waits) {
  if (!ended_ && stream_.takes_input()) {
    waits.push_back({STDIN_FILENO, POLLIN, 0});
  }
  return -1;
}

Result<void> TerminalInput::step() {
  if (ended_ || !stream_.takes_input() || !input_is_ready()) {
    return {};
  }
  ASSIGN_OR_RETURN(const auto typed, read_input());
  ended_ = typed.empty();
  if (!escapes_) {
    stream_.send_input(typed);
    if (ended_) {
      stream_.send_end_of_input();
    }
    return {};
  }
  const auto filtered = filter_.feed(typed);
  stream_.send_input(filtered.bytes);
  left_ = filtered.leave || ended_;
  return {};
}

PipeInput::PipeInput(Context& context, std::string target, EarlyInput early, Writer writer)
    : context_(context),
      target_(std::move(target)),
      http_(context.http.endpoint(), context.interrupt),
      writer_(writer),
      bytes_(std::move(early.bytes)),
      ended_(early.ended) {}

bool PipeInput::something_to_send() const {
  return !bytes_.empty() || (ended_ && writer_ == Writer::only);
}

bool PipeInput::wants_more() const { return !ended_ && bytes_.size() - posted_ < kPieceBytesMax; }

int PipeInput::add_waits(std::vector<pollfd>& waits) {
  if (finished_) {
    return -1;
  }
  if (wants_more()) {
    waits.push_back({STDIN_FILENO, POLLIN, 0});
  }
  if (http_.busy()) {
    return http_.add_waits(waits);
  }
  const auto left = next_attempt_ - context_.clock.steady();
  const bool waiting = something_to_send();
  return waiting
             ? static_cast<int>(std::max<int64_t>(std::chrono::ceil<milliseconds>(left).count(), 0))
             : -1;
}

Result<void> PipeInput::step() {
  if (finished_) {
    return {};
  }
  RETURN_IF_ERROR(read_more());
  if (http_.busy()) {
    if (auto answer = http_.step()) {
      RETURN_IF_ERROR(take_answer(std::move(*answer)));
    }
  }
  if (!finished_ && !http_.busy() && something_to_send() &&
      context_.clock.steady() >= next_attempt_) {
    post();
  }
  return {};
}

void PipeInput::abandon() {
  http_.abandon();
  finished_ = true;
}

Result<void> PipeInput::read_more() {
  if (wants_more() && input_is_ready()) {
    ASSIGN_OR_RETURN(const auto bytes, read_input());
    ended_ = bytes.empty();
    bytes_ += bytes;
  }
  return {};
}

void PipeInput::post() {
  posted_ = std::min(bytes_.size(), kPieceBytesMax);
  end_posted_ = writer_ == Writer::only && ended_ && posted_ == bytes_.size();
  std::string query;
  if (writer_ == Writer::only) {
    add_parameter(query, "offset", std::to_string(offset_));
  }
  if (end_posted_) {
    add_parameter(query, "eof", "1");
  }
  http_.begin({.method = "POST",
               .target = base::cat(target_, "/stdin", query.empty() ? "" : "?", query),
               .headers = {{"Content-Type", "application/octet-stream"}},
               .body = bytes_.substr(0, posted_)});
  (void)http_.step();  // libcurl begins to send at its first turn
}

Result<void> PipeInput::take_answer(Result<HttpResponse> answer) {
  const size_t posted = std::exchange(posted_, 0);
  base::Error error;
  if (!answer) {
    error = std::move(answer).error();
  } else if (answer->status / 100 == 2) {
    posted_ = posted;
    return take_count(answer->body);
  } else {
    error = parse_error_answer(*answer);
  }
  end_posted_ = false;
  if (error.code == ErrorCode::session_exited || error.code == ErrorCode::not_found ||
      error.code == ErrorCode::conflict) {
    finished_ = true;  // nobody takes it any more; what there is to say, the session says itself
    return {};
  }
  if (!is_passing(error) || writer_ != Writer::only) {
    return base::with_context(Result<void>(std::unexpected(error)), "write to the session");
  }
  next_attempt_ = context_.clock.steady() +
                  std::min(kFirstPause * (1 << std::min(failures_++, kDoublingsMax)), kPauseMax);
  return {};
}

// How much of the request counts as taken: all of it where others write too.
Result<void> PipeInput::take_count(const std::string& body) {
  size_t taken = std::exchange(posted_, 0);
  if (writer_ == Writer::only) {
    ASSIGN_OR_RETURN(const auto answer, wire::json::parse_object(body));
    const auto offset = base::parse_number<uint64_t>(field_text(answer, "offset"));
    if (!offset || *offset < offset_ || *offset > offset_ + taken) {
      return fail(ErrorCode::internal, "the session's count of its input is wrong");
    }
    taken = *offset - offset_;
  }
  if (taken == 0 && !bytes_.empty()) {  // no room there: later
    next_attempt_ = context_.clock.steady() +
                    std::min(kFirstPause * (1 << std::min(failures_++, kDoublingsMax)), kPauseMax);
    end_posted_ = false;
    return {};
  }
  failures_ = 0;
  bytes_.erase(0, taken);
  offset_ += taken;
  finished_ = end_posted_ && bytes_.empty();
  end_posted_ = finished_;
  return {};
}

}  // namespace cli
