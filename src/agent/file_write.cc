#include "agent/file_write.h"

#include <utility>

#include "agent/answers.h"
#include "agent/file_request.h"
#include "agent/tar_receive.h"
#include "agent/upload.h"
#include "agent/upload_body.h"
#include "agent/upload_digest.h"
#include "base/fault.h"
#include "base/log.h"

namespace agent {
net::Task<Result<void>> write_file(Agent& agent, net::Stream& client, net::HttpReader& reader,
                                   const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const FileRequest wanted,
                      parse_file_request(agent, request, FileRoute::write));
  if (wanted.tar) {
    co_return co_await receive_tar(client, reader, request, wanted);
  }
  CO_ASSIGN_OR_RETURN(Upload upload, Upload::begin(wanted, request.content_length));
  base::fault_point("agent.upload.begun");
  uint64_t size = 0;
  PieceBuffers buffers(1 + UploadDigest::kQueueMax, request);
  UploadDigest digest;  // goes before the pieces that it may still be reading
  const auto take = [&](std::string_view bytes) {
    size += bytes.size();
    digest.add(bytes);
    return upload.write(bytes);
  };
  CO_RETURN_IF_ERROR(co_await receive_body(client, reader, request, buffers, take));
  base::fault_point("agent.upload.written");
  CO_RETURN_IF_ERROR(upload.commit());
  base::fault_point("agent.upload.replaced");
  std::string body = "{\"path\":";
  base::append_json_string(body, wanted.path);
  body += base::cat(",\"size\":", size, ",\"sha256\":\"", digest.finish(), "\"}");
  co_return co_await write_json(client, 200, std::move(body));
}

}  // namespace agent
