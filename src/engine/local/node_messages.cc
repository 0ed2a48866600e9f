#include "engine/local/node_messages.h"

#include <algorithm>
#include <optional>

#include "wire/container_json.h"

namespace engine {
namespace {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;
using wire::json::Value;

constexpr size_t kIdLengthMax = 63;         // a DNS label
constexpr size_t kNameLengthMax = 1024;     // an image reference, a host name
constexpr size_t kMessageLengthMax = 4096;  // what a person still reads
constexpr size_t kReasonLengthMax = 64;     // one of the API's words
constexpr size_t kDetailsMax = 16;
constexpr size_t kConfigLengthMax = size_t{256} * 1024;

// At most `most` bytes, cut between two characters.
std::string cut(std::string_view text, size_t most) {
  if (text.size() > most) {
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) {
      --most;
    }
    text = text.substr(0, most);
  }
  return std::string(text);
}

Result<std::string> read_text(Reader& reader, std::string_view name, size_t most) {
  ASSIGN_OR_RETURN(const auto text, reader.optional<std::string>(name));
  return text ? cut(*text, most) : std::string();
}

// A count or size: absent is 0, negative is refused.
Result<int64_t> read_count(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<int64_t>(name));
  if (value && *value < 0) {
    return base::fail_field(name, "field '", name, "' is negative");
  }
  return value.value_or(0);
}

std::optional<State> parse_state(std::string_view text) {
  if (text == "starting") {
    return State::starting;
  }
  if (text == "ready") {
    return State::ready;
  }
  if (text == "failed") {
    return State::failed;
  }
  return text == "gone" ? std::optional(State::gone) : std::nullopt;
}

// Each object of the list `name`, by `parse`.
template <typename T, typename Parse>
Result<std::vector<T>> parse_list(const Object& answer, std::string_view name, Parse parse) {
  Reader reader(answer);
  ASSIGN_OR_RETURN(const auto list, reader.required<Array>(name));
  std::vector<T> out;
  for (const Value& item : list) {
    if (!item.is_object()) {
      return base::fail_field(name, "field '", name, "' holds something else than objects");
    }
    ASSIGN_OR_RETURN(T value, parse(item.get_object()));
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace

bool is_sandbox_id(std::string_view id) {
  const auto fine = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
  };
  return !id.empty() && id.size() <= kIdLengthMax && std::ranges::all_of(id, fine);
}

Object spec_to_json(const model::SandboxSpec& spec) {
  Array containers;
  for (const model::ContainerSpec& container : spec.containers) {
    containers.emplace_back(wire::to_json(container));
  }
  Object out{{"id", spec.id},
             {"containers", std::move(containers)},
             {"resources", Object{{"millicpus", spec.resources.millicpus},
                                  {"memory_mb", spec.resources.memory_mb},
                                  {"storage_mb", spec.resources.storage_mb},
                                  {"pids", spec.resources.pids}}},
             {"network", model::to_text(spec.network)},
             {"no_new_privileges", spec.no_new_privileges},
             {"always_pull", spec.always_pull}};
  if (spec.builder) {
    out["builder"] = true;
  }
  if (Object access = wire::to_json(spec.registry); !access.empty()) {
    out["registry"] = std::move(access);
  }
  return out;
}

Result<Status> parse_status(const Object& object, std::string_view node) {
  Reader reader(object);
  Status status;
  ASSIGN_OR_RETURN(status.id, reader.required<std::string>("id"));
  ASSIGN_OR_RETURN(const auto state_text, reader.required<std::string>("state"));
  const auto state = parse_state(state_text);
  if (!is_sandbox_id(status.id) || !state) {
    return fail(ErrorCode::malformed, "a status has a broken id or an unknown state");
  }
  status.state = *state;
  ASSIGN_OR_RETURN(status.reason, read_text(reader, "reason", kReasonLengthMax));
  ASSIGN_OR_RETURN(status.message, read_text(reader, "message", kMessageLengthMax));
  ASSIGN_OR_RETURN(status.image_digest, read_text(reader, "image_digest", kNameLengthMax));
  ASSIGN_OR_RETURN(status.pull_ms, read_count(reader, "pull_ms"));
  ASSIGN_OR_RETURN(status.start_ms, read_count(reader, "start_ms"));
  status.node = node;
  return status;
}

Result<Change> parse_change(const Object& object, std::string_view node) {
  Reader reader(object);
  Change change;
  ASSIGN_OR_RETURN(change.type, read_text(reader, "type", kReasonLengthMax));
  ASSIGN_OR_RETURN(change.message, read_text(reader, "message", kMessageLengthMax));
  ASSIGN_OR_RETURN(const auto status, reader.required<Object>("status"));
  ASSIGN_OR_RETURN(change.status, parse_status(status, node));
  return change;
}

Result<std::vector<Status>> parse_statuses(const Object& answer, std::string_view node) {
  return parse_list<Status>(answer, "sandboxes",
                            [node](const Object& object) { return parse_status(object, node); });
}

Result<std::vector<Usage>> parse_usages(const Object& answer) {
  return parse_list<Usage>(answer, "sandboxes", [](const Object& object) -> Result<Usage> {
    Reader reader(object);
    Usage usage;
    ASSIGN_OR_RETURN(usage.id, reader.required<std::string>("id"));
    if (!is_sandbox_id(usage.id)) {
      return fail(ErrorCode::malformed, "a usage has a broken id");
    }
    ASSIGN_OR_RETURN(usage.cpu_usec, reader.required<int64_t>("cpu_usec"));
    ASSIGN_OR_RETURN(usage.memory_bytes, reader.required<int64_t>("memory_bytes"));
    ASSIGN_OR_RETURN(usage.pids, reader.required<int64_t>("pids"));
    ASSIGN_OR_RETURN(usage.storage_bytes, reader.required<int64_t>("storage_bytes"));
    ASSIGN_OR_RETURN(usage.rx_bytes, reader.required<int64_t>("rx_bytes"));
    ASSIGN_OR_RETURN(usage.tx_bytes, reader.required<int64_t>("tx_bytes"));
    return usage;
  });
}

Result<NodeInfo> parse_node(const Object& answer) {
  Reader reader(answer);
  NodeInfo info;
  ASSIGN_OR_RETURN(info.name, read_text(reader, "node", kNameLengthMax));
  ASSIGN_OR_RETURN(info.version, read_text(reader, "version", kReasonLengthMax));
  ASSIGN_OR_RETURN(info.millicpus, read_count(reader, "millicpus"));
  ASSIGN_OR_RETURN(info.memory_mb, read_count(reader, "memory_mb"));
  ASSIGN_OR_RETURN(info.storage_mb, read_count(reader, "storage_mb"));
  ASSIGN_OR_RETURN(info.sandboxes, read_count(reader, "sandboxes"));
  return info;
}

Result<ImageInfo> parse_image(const Object& object) {
  Reader reader(object);
  ImageInfo image;
  ASSIGN_OR_RETURN(image.name, read_text(reader, "name", kNameLengthMax));
  ASSIGN_OR_RETURN(image.digest, read_text(reader, "digest", kNameLengthMax));
  ASSIGN_OR_RETURN(image.size_bytes, read_count(reader, "size_bytes"));
  ASSIGN_OR_RETURN(image.platform, read_text(reader, "platform", kReasonLengthMax));
  ASSIGN_OR_RETURN(image.source, read_text(reader, "source", kReasonLengthMax));
  ASSIGN_OR_RETURN(image.created_ms, read_count(reader, "created_ms"));
  ASSIGN_OR_RETURN(image.last_used_ms, read_count(reader, "last_used_ms"));
  ASSIGN_OR_RETURN(const auto in_use, reader.optional<bool>("in_use"));
  ASSIGN_OR_RETURN(const auto config, reader.optional<Object>("config"));
  image.in_use = in_use.value_or(false);
  image.config_json = wire::json::serialize(config.value_or(Object{}));
  if (image.config_json.size() > kConfigLengthMax) {
    image.config_json = "{}";
  }
  return image;
}

Result<std::vector<ImageInfo>> parse_images(const Object& answer) {
  return parse_list<ImageInfo>(answer, "images", parse_image);
}

Result<PullProgress> parse_progress(const Object& answer) {
  Reader reader(answer);
  PullProgress progress;
  ASSIGN_OR_RETURN(progress.state, read_text(reader, "state", kReasonLengthMax));
  ASSIGN_OR_RETURN(progress.done_bytes, read_count(reader, "done_bytes"));
  ASSIGN_OR_RETURN(progress.total_bytes, read_count(reader, "total_bytes"));
  ASSIGN_OR_RETURN(progress.layers_done, read_count(reader, "layers_done"));
  ASSIGN_OR_RETURN(progress.layers, read_count(reader, "layers"));
  ASSIGN_OR_RETURN(progress.reason, read_text(reader, "reason", kReasonLengthMax));
  ASSIGN_OR_RETURN(progress.message, read_text(reader, "message", kMessageLengthMax));
  ASSIGN_OR_RETURN(progress.name, read_text(reader, "name", kNameLengthMax));
  if (progress.state != "running" && progress.state != "succeeded" && progress.state != "failed") {
    return fail(ErrorCode::malformed, "a pull has an unknown state");
  }
  return progress;
}

Result<GcResult> parse_gc(const Object& answer) {
  Reader reader(answer);
  GcResult result;
  ASSIGN_OR_RETURN(result.freed_bytes, read_count(reader, "freed_bytes"));
  ASSIGN_OR_RETURN(auto removed, reader.optional<std::vector<std::string>>("removed"));
  for (const std::string& name : removed.value_or(std::vector<std::string>{})) {
    result.removed.push_back(cut(name, kNameLengthMax));
  }
  return result;
}

base::Error parse_error(const Value& value) {
  base::Error error{.code = ErrorCode::internal, .message = "the node failed without a reason"};
  if (!value.is_object()) {
    return error;
  }
  Reader reader(value.get_object());
  const auto code = reader.optional<std::string>("code");
  const auto message = read_text(reader, "message", kMessageLengthMax);
  const auto details = reader.optional<Object>("details");
  if (message && !message->empty()) {
    error.message = *message;
  }
  if (!code || !*code || !base::parse_error_code(**code, error.code)) {
    error.code = ErrorCode::internal;
  }
  if (details && *details) {
    for (const auto& field : **details) {
      if (field.value().is_string() && error.details.size() < kDetailsMax) {
        error.details.emplace_back(
            cut(field.key(), kReasonLengthMax),
            cut(std::string_view(field.value().get_string()), kMessageLengthMax));
      }
    }
  }
  return error;
}

}  // namespace engine
