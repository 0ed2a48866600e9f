#include "agent/run_answer.h"

#include <memory>

#include "agent/text_encoder.h"
#include "wire/http1.h"
#include "wire/json.h"

namespace agent {
namespace {

// A slow reader is waited for as long as it takes something now and then.
constexpr base::Milliseconds kWritePatience{600'000};
constexpr size_t kSliceBytes = size_t{64} * 1024;

std::string_view json_bool(bool value) { return value ? "true" : "false"; }

std::string before_output(const RunOutcome& outcome) {
  return base::cat("{\"exit_code\":", outcome.exit_code, ",\"signal\":",
                   outcome.signal.empty() ? "null" : base::cat('"', outcome.signal, '"'),
                   ",\"timed_out\":", json_bool(outcome.timed_out),
                   ",\"oom_killed\":", json_bool(outcome.oom_killed), ",\"stdout\":\"");
}

std::string behind_output(const RunOutcome& outcome, uint64_t out_dropped, uint64_t err_dropped) {
  return base::cat("\",\"truncated\":", json_bool(out_dropped + err_dropped > 0),
                   ",\"stdout_dropped_bytes\":", out_dropped,
                   ",\"stderr_dropped_bytes\":", err_dropped,
                   ",\"duration_ms\":", outcome.duration_ms, "}");
}

// One stream's share, slice by slice, as JSON text.
class ShareReader {
 public:
  ShareReader(const OutputStore& store, uint64_t share, OutputEncoding encoding)
      : store_(store), ranges_(store.ranges(share)), encoder_(encoding) {}

  // Appends the next slice; false when all was given.
  Result<bool> next(std::string& out) {
    while (at_ < ranges_.size() && ranges_.at(at_).size == 0) {
      ++at_;
    }
    if (at_ == ranges_.size()) {
      encoder_.finish(out);
      return false;
    }
    auto& range = ranges_.at(at_);
    const auto buffer = std::make_unique_for_overwrite<char[]>(kSliceBytes);
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(kSliceBytes, range.size));
    ASSIGN_OR_RETURN(const size_t size, store_.read(range.begin, {buffer.get(), wanted}));
    encoder_.add(out, {buffer.get(), size});
    range.begin += size;
    range.size -= size;
    return true;
  }
  [[nodiscard]] uint64_t shown() const { return ranges_[0].size + ranges_[1].size; }

 private:
  const OutputStore& store_;
  std::array<OutputStore::Range, 2> ranges_;
  TextEncoder encoder_;
  size_t at_ = 0;
};

net::Task<Result<void>> write_chunk(net::Stream& client, std::string_view bytes) {
  const std::string head = wire::http::chunk_head(bytes.size());
  CO_RETURN_IF_ERROR(co_await client.write_all(head, bytes, kWritePatience));
  co_return co_await client.write_all("\r\n", kWritePatience);
}

}  // namespace

std::string chunked_answer_head() {
  return wire::http::HeadBuilder::response(200)
      .add("content-type", "application/json")
      .add_chunked()
      .finish();
}

net::Task<Result<void>> write_run_answer(net::Stream& client, const RunOutcome& outcome,
                                         const OutputStore& out, const OutputStore& err,
                                         OutputEncoding encoding, bool head_written) {
  const Shares shares = share_output(out.kept(), err.kept());
  ShareReader out_reader(out, shares.out, encoding);
  ShareReader err_reader(err, shares.err, encoding);
  const uint64_t out_dropped = out.total() - out_reader.shown();
  const uint64_t err_dropped = err.total() - err_reader.shown();
  const bool whole = !head_written && !out.spooled() && !err.spooled();
  if (!whole && !head_written) {
    const std::string head = chunked_answer_head();
    CO_RETURN_IF_ERROR(co_await client.write_all(head, kWritePatience));
  }
  std::string text = before_output(outcome);
  for (ShareReader* reader : {&out_reader, &err_reader}) {
    for (bool more = true; more;) {
      CO_ASSIGN_OR_RETURN(more, reader->next(text));
      if (!whole && text.size() >= kSliceBytes) {
        CO_RETURN_IF_ERROR(co_await write_chunk(client, text));
        text.clear();
      }
    }
    if (reader == &out_reader) {
      text += "\",\"stderr\":\"";
    }
  }
  text += behind_output(outcome, out_dropped, err_dropped);
  if (!whole) {
    CO_RETURN_IF_ERROR(co_await write_chunk(client, text));
    co_return co_await client.write_all(wire::http::kLastChunk, kWritePatience);
  }
  const std::string head = wire::http::HeadBuilder::response(200)
                               .add("content-type", "application/json")
                               .add_length(text.size())
                               .finish();
  co_return co_await client.write_all(head, text, kWritePatience);
}

net::Task<Result<void>> write_late_error(net::Stream& client, const base::Error& error,
                                         std::string request_id) {
  const std::string body = wire::json::error_body(error, request_id);
  // {"error":{...}} becomes {"exit_code":null,"error":{...}}.
  const std::string text = base::cat("{\"exit_code\":null,", std::string_view(body).substr(1));
  CO_RETURN_IF_ERROR(co_await write_chunk(client, text));
  co_return co_await client.write_all(wire::http::kLastChunk, kWritePatience);
}

}  // namespace agent
