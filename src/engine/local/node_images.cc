#include "engine/local/node_images.h"

#include "engine/local/node_messages.h"
#include "wire/container_json.h"

namespace engine {
namespace {

using net::Task;
using wire::json::Object;
using wire::json::Reader;

constexpr base::Milliseconds kAnswerPatience{30'000};
// Unpacking tens of gigabytes from a slow disk.
constexpr base::Milliseconds kImportPatience{2 * 3600 * 1000};
constexpr base::Milliseconds kCollectPatience{600'000};  // deletes many layers

}  // namespace

Task<Result<std::vector<ImageInfo>>> NodeImages::list() {
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("image_list", Object{}, kAnswerPatience));
  co_return parse_images(answer);
}

Task<Result<ImageInfo>> NodeImages::get(std::string name) {
  Object fields{{"name", name}};
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("image_get", std::move(fields), kAnswerPatience));
  co_return parse_image(answer);
}

Task<Result<std::string>> NodeImages::pull(std::string reference, model::RegistryAccess access) {
  Object fields{{"reference", reference}};
  if (Object registry = wire::to_json(access); !registry.empty()) {
    fields["registry"] = std::move(registry);
  }
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("image_pull", std::move(fields), kAnswerPatience));
  Reader reader(answer);
  co_return reader.required<std::string>("pull");
}

Task<Result<PullProgress>> NodeImages::pull_progress(std::string pull_id) {
  Object fields{{"pull", pull_id}};
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("image_progress", std::move(fields), kAnswerPatience));
  co_return parse_progress(answer);
}

Task<Result<ImageInfo>> NodeImages::import(std::string name, base::Fd tar) {
  Object fields{{"name", name}};
  CO_ASSIGN_OR_RETURN(const Object answer, co_await node_.call("image_import", std::move(fields),
                                                               kImportPatience, std::move(tar)));
  co_return parse_image(answer);
}

Task<Result<void>> NodeImages::remove(std::string name) {
  Object fields{{"name", name}};
  CO_RETURN_IF_ERROR(co_await node_.call("image_remove", std::move(fields), kCollectPatience));
  co_return Result<void>{};
}

Task<Result<GcResult>> NodeImages::gc() {
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("image_gc", Object{}, kCollectPatience));
  co_return parse_gc(answer);
}

}  // namespace engine
