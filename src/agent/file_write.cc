#include "agent/file_write.h"

#include <memory>

#include "agent/file_request.h"
#include "agent/sha256.h"
#include "agent/upload.h"
#include "base/log.h"

namespace agent {
namespace {

using net::Deadline;

constexpr base::Milliseconds kBodyPatience{300'000};
constexpr base::Milliseconds kWritePatience{60'000};
constexpr size_t kUploadBytes = 256 * 1024;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

struct Received {
  uint64_t size = 0;
  Sha256 hash;
};

Result<void> take(Upload& upload, Received& received, std::string_view bytes) {
  received.size += bytes.size();
  received.hash.add(bytes);
  return upload.write(bytes);
}

// Past what came with the head, a body of known length is read in large pieces.
net::Task<Result<void>> receive(net::Stream& client, net::HttpReader& reader,
                                const wire::http::Request& request, Upload& upload,
                                Received& received) {
  std::unique_ptr<char[]> buffer;
  while (!reader.body_finished()) {
    if (request.body != wire::http::BodyKind::length || reader.has_buffered()) {
      CO_ASSIGN_OR_RETURN(const auto piece,
                          co_await reader.read_body(Deadline::after(kBodyPatience)));
      CO_RETURN_IF_ERROR(take(upload, received, piece));
      continue;
    }
    if (!buffer) {
      buffer = std::make_unique_for_overwrite<char[]>(kUploadBytes);
    }
    const uint64_t left = reader.decoder().left();
    const std::span<char> room(buffer.get(),
                               static_cast<size_t>(std::min<uint64_t>(left, kUploadBytes)));
    CO_ASSIGN_OR_RETURN(const size_t count,
                        co_await client.read_some(room, Deadline::after(kBodyPatience)));
    if (count == 0) {
      co_return base::fail(ErrorCode::connection_closed, "the upload ended early");
    }
    reader.decoder().skip(count);
    CO_RETURN_IF_ERROR(take(upload, received, {buffer.get(), count}));
  }
  co_return Result<void>{};
}

}  // namespace

net::Task<Result<void>> write_file(Agent& agent, net::Stream& client, net::HttpReader& reader,
                                   const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const FileRequest wanted, parse_file_request(agent, request));
  CO_ASSIGN_OR_RETURN(Upload upload, Upload::begin(wanted, request.content_length));
  if (request.expect_continue) {
    CO_RETURN_IF_ERROR(co_await client.write_all(kContinue, kWritePatience));
  }
  Received received;
  CO_RETURN_IF_ERROR(co_await receive(client, reader, request, upload, received));
  CO_RETURN_IF_ERROR(upload.commit());
  std::string body = "{\"path\":";
  base::append_json_string(body, wanted.path);
  body += base::cat(",\"size\":", received.size, ",\"sha256\":\"", received.hash.finish(), "\"}");
  const std::string head = wire::http::HeadBuilder::response(200)
                               .add("content-type", "application/json")
                               .add_length(body.size())
                               .finish();
  co_return co_await client.write_all(head, body, kWritePatience);
}

}  // namespace agent
