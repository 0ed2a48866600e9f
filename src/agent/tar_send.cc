#include "agent/tar_send.h"

#include "agent/tar_source.h"
#include "net/http.h"

namespace agent {
namespace {

constexpr base::Milliseconds kWritePatience{600'000};

}  // namespace

net::Task<Result<void>> send_tar(net::Stream& client, FileRequest request, bool head_only) {
  TarSource source(request);
  CO_RETURN_IF_ERROR(source.open());
  if (request.acting.uid != 0) {
    ReadableTree tree(request);
    for (bool more = true; more;) {
      CO_ASSIGN_OR_RETURN(more, tree.next());
      co_await client.loop().yield();
    }
  }
  const std::string head = wire::http::HeadBuilder::response(200)
                               .add("content-type", "application/x-tar")
                               .add_chunked()
                               .finish();
  CO_RETURN_IF_ERROR(co_await client.write_all(head, kWritePatience));
  if (head_only) {
    co_return Result<void>{};
  }
  net::HttpWriter writer(client, kWritePatience);
  std::string slice;
  for (bool more = true; more;) {
    slice.clear();
    auto next = source.next(slice);
    if (!next) {
      co_return base::fail(ErrorCode::connection_closed, next.error().message);
    }
    more = *next;
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(slice));
    co_await client.loop().yield();
  }
  co_return co_await writer.finish_chunks();
}

}  // namespace agent
