#include "agent/upload_body.h"

#include <algorithm>
#include <memory>
#include <span>

#include "agent/answers.h"

namespace agent {
namespace {

using net::Deadline;

constexpr base::Milliseconds kUploadPatience{300'000};
constexpr size_t kUploadBytes = 256 * 1024;

}  // namespace

net::Task<Result<void>> receive_body(net::Stream& client, net::HttpReader& reader,
                                     const wire::http::Request& request,
                                     const std::function<Result<void>(std::string_view)>& take) {
  CO_RETURN_IF_ERROR(co_await ask_for_body(client, request));
  std::unique_ptr<char[]> buffer;
  while (!reader.body_finished()) {
    // Past what came with the head, a body or chunk of known length is read in large pieces.
    const uint64_t left = reader.decoder().left();
    if (left == 0 || reader.has_buffered()) {
      CO_ASSIGN_OR_RETURN(const auto piece,
                          co_await reader.read_body(Deadline::after(kUploadPatience)));
      CO_RETURN_IF_ERROR(take(piece));
      continue;
    }
    if (!buffer) {
      buffer = std::make_unique_for_overwrite<char[]>(kUploadBytes);
    }
    const std::span<char> room(buffer.get(),
                               static_cast<size_t>(std::min<uint64_t>(left, kUploadBytes)));
    CO_ASSIGN_OR_RETURN(const size_t count,
                        co_await client.read_some(room, Deadline::after(kUploadPatience)));
    if (count == 0) {
      co_return base::fail(base::ErrorCode::connection_closed, "the upload ended early");
    }
    reader.decoder().skip(count);
    CO_RETURN_IF_ERROR(take({buffer.get(), count}));
    co_await client.loop().yield();
  }
  co_return Result<void>{};
}

}  // namespace agent
