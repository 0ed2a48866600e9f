#include "agent/upload_body.h"

#include <algorithm>

#include "agent/answers.h"

namespace agent {
namespace {

using net::Deadline;

constexpr base::Milliseconds kUploadPatience{300'000};
constexpr size_t kUploadBytes = size_t{256} * 1024;
static_assert(kUploadBytes >= net::HttpReader::kBodyReadBytes);

}  // namespace

PieceBuffers::PieceBuffers(size_t count, const wire::http::Request& request)
    : bytes_(request.body == wire::http::BodyKind::length
                 ? static_cast<size_t>(std::min<uint64_t>(request.content_length, kUploadBytes))
                 : kUploadBytes),
      buffers_(count) {}

std::span<char> PieceBuffers::next() {
  last_ = (last_ + 1) % buffers_.size();
  auto& buffer = buffers_[last_];
  if (!buffer) {
    buffer = std::make_unique_for_overwrite<char[]>(bytes_);
  }
  return {buffer.get(), bytes_};
}

net::Task<Result<void>> receive_body(net::Stream& client, net::HttpReader& reader,
                                     const wire::http::Request& request, PieceBuffers& buffers,
                                     const std::function<Result<void>(std::string_view)>& take) {
  CO_RETURN_IF_ERROR(co_await ask_for_body(client, request));
  while (!reader.body_finished()) {
    // Past what came with the head, a body or chunk of known length is read in large pieces.
    const uint64_t left = reader.decoder().left();
    if (left == 0 || reader.has_buffered()) {
      CO_ASSIGN_OR_RETURN(const auto piece,
                          co_await reader.read_body(Deadline::after(kUploadPatience)));
      if (!piece.empty()) {
        const std::span<char> buffer = buffers.next();
        std::ranges::copy(piece, buffer.begin());
        CO_RETURN_IF_ERROR(take({buffer.data(), piece.size()}));
      }
      continue;
    }
    const std::span<char> buffer = buffers.next();
    const std::span<char> room =
        buffer.first(static_cast<size_t>(std::min<uint64_t>(left, buffer.size())));
    CO_ASSIGN_OR_RETURN(const size_t count,
                        co_await client.read_some(room, Deadline::after(kUploadPatience)));
    if (count == 0) {
      co_return base::fail(base::ErrorCode::connection_closed, "the upload ended early");
    }
    reader.decoder().skip(count);
    CO_RETURN_IF_ERROR(take({room.data(), count}));
    co_await client.loop().yield();
  }
  co_return Result<void>{};
}

}  // namespace agent
