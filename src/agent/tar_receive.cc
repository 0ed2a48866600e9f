#include "agent/tar_receive.h"

#include <utility>

#include "agent/acting_as.h"
#include "agent/answers.h"
#include "agent/tar_target.h"
#include "agent/upload_body.h"
#include "base/fault.h"
#include "base/log.h"

namespace agent {
namespace {

class TarUpload {
 public:
  explicit TarUpload(const FileRequest& request) : request_(request), target_(request) {}
  TarUpload(const TarUpload&) = delete;
  TarUpload& operator=(const TarUpload&) = delete;
  ~TarUpload() {
    if (!finished_) {
      const ActingAs acting(request_.acting);
      target_.abandon();
    }
  }

  Result<void> begin() {
    if (request_.preserve_owner && request_.acting.uid != 0) {
      return base::fail(ErrorCode::permission_denied, "'preserve_owner' is for root");
    }
    const ActingAs acting(request_.acting);
    return target_.open();
  }
  Result<void> take(std::string_view bytes) {
    const ActingAs acting(request_.acting);
    return told(place_members(reader_, bytes, target_));
  }
  Result<void> finish() {
    const ActingAs acting(request_.acting);
    RETURN_IF_ERROR(told(reader_.end_of_input()));
    RETURN_IF_ERROR(told(target_.finish()));
    finished_ = true;
    return {};
  }
  [[nodiscard]] const TarCounts& counts() const { return target_.counts(); }

 private:
  Result<void> told(Result<void> result) {
    if (!result) {
      target_.settle();
      const TarCounts& counts = target_.counts();
      auto& details = result.error().details;
      details.emplace_back("written_count",
                           base::cat(counts.files + counts.folders + counts.links));
      details.emplace_back("written", target_.placed());
    }
    return result;
  }

  const FileRequest& request_;
  wire::tar::Reader reader_;
  TarTarget target_;
  bool finished_ = false;
};

}  // namespace

net::Task<Result<void>> receive_tar(net::Stream& client, net::HttpReader& reader,
                                    const wire::http::Request& request, const FileRequest& wanted) {
  TarUpload upload(wanted);
  CO_RETURN_IF_ERROR(upload.begin());
  const auto take = [&upload](std::string_view bytes) { return upload.take(bytes); };
  PieceBuffers buffers(1, request);
  CO_RETURN_IF_ERROR(co_await receive_body(client, reader, request, buffers, take));
  base::fault_point("agent.archive.placed");
  CO_RETURN_IF_ERROR(upload.finish());
  const TarCounts& counts = upload.counts();
  std::string body = "{\"path\":";
  base::append_json_string(body, wanted.path);
  body += base::cat(",\"files\":", counts.files, ",\"folders\":", counts.folders,
                    ",\"links\":", counts.links, ",\"bytes\":", counts.bytes, "}");
  co_return co_await write_json(client, 200, std::move(body));
}

}  // namespace agent
