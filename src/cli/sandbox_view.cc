#include "cli/sandbox_view.h"

#include "cli/format.h"

namespace cli {

using base::cat;
using wire::json::Array;
using wire::json::Object;

namespace {

constexpr size_t kDigestShown = 19;  // "sha256:" and 12 digits, as other tools show it
constexpr size_t kEventTypeWidth = 14;

std::string megabytes(const Object& object, std::string_view name) {
  const std::string text = field_text(object, name);
  return text.empty() ? text : cat(text, " MB");
}

std::string age(const Object& object, std::string_view name, base::WallTime now) {
  const std::string time = field_text(object, name);
  return time.empty() ? time : format_age(time, now);
}

std::string state_text(const Object& sandbox) {
  const std::string reason = field_text(sandbox, "reason");
  return cat(field_text(sandbox, "state"), reason.empty() ? "" : " (", reason,
             reason.empty() ? "" : ")");
}

std::string nested(const Object& object, std::string_view outer, std::string_view inner) {
  const auto* value = object.if_contains(outer);
  return value != nullptr && value->is_object() ? field_text(value->get_object(), inner) : "";
}

std::string timings_text(const Object& sandbox) {
  std::string out;
  for (const std::string_view part : {"queued", "pull", "start"}) {
    const std::string ms = nested(sandbox, "timings", cat(part, "_ms"));
    if (!ms.empty()) {
      out += cat(out.empty() ? "" : ", ", part, " ", ms, " ms");
    }
  }
  return out;
}

}  // namespace

std::string sandbox_table(const Array& sandboxes, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& item : sandboxes) {
    if (item.is_object()) {
      const Object& sandbox = item.get_object();
      rows.push_back({field_text(sandbox, "id"), state_text(sandbox), field_text(sandbox, "image"),
                      field_text(sandbox, "cpus"), megabytes(sandbox, "memory_mb"),
                      age(sandbox, "created_at", now), field_labels(sandbox, "labels")});
    }
  }
  return format_table({"ID", "STATE", "IMAGE", "CPUS", "MEMORY", "AGE", "LABELS"}, rows);
}

std::string network_text(const Object& sandbox) {
  std::string text = nested(sandbox, "network", "mode");
  const auto* network = sandbox.if_contains("network");
  const auto* allow = network != nullptr && network->is_object()
                          ? network->get_object().if_contains("allow")
                          : nullptr;
  std::string_view separator = ": ";
  for (const auto& host : allow != nullptr && allow->is_array() ? allow->get_array() : Array{}) {
    text += cat(separator, host.is_string() ? std::string_view(host.get_string()) : "?");
    separator = ", ";
  }
  return text;
}

std::string sandbox_details(const Object& sandbox, base::WallTime now) {
  const auto time = [&](std::string_view name) {
    const std::string text = field_text(sandbox, name);
    return text.empty() ? text : cat(text, " (", format_age(text, now), " ago)");
  };
  return format_pairs({{"Id", field_text(sandbox, "id")},
                       {"State", state_text(sandbox)},
                       {"Message", field_text(sandbox, "message")},
                       {"Image", field_text(sandbox, "image")},
                       {"Digest", field_text(sandbox, "image_digest")},
                       {"Cpus", field_text(sandbox, "cpus")},
                       {"Memory", megabytes(sandbox, "memory_mb")},
                       {"Storage", megabytes(sandbox, "storage_mb")},
                       {"Labels", field_labels(sandbox, "labels")},
                       {"Team", field_text(sandbox, "team")},
                       {"Owner", field_text(sandbox, "owner")},
                       {"Isolation", field_text(sandbox, "isolation")},
                       {"Network", network_text(sandbox)},
                       {"Node", field_text(sandbox, "node")},
                       {"Public key", field_text(sandbox, "public_key")},
                       {"Created", time("created_at")},
                       {"Ready", time("ready_at")},
                       {"Last activity", time("last_activity_at")},
                       {"Lease expires", field_text(sandbox, "lease_expires_at")},
                       {"Lifetime ends", field_text(sandbox, "max_lifetime_at")},
                       {"Took", timings_text(sandbox)}});
}

std::string event_line(const Object& event) {
  std::string type = field_text(event, "type");
  type.resize(std::max(type.size(), kEventTypeWidth), ' ');
  std::string line = cat(field_text(event, "at"), "  ", type);
  for (const std::string_view name : {"reason", "message"}) {
    const std::string text = field_text(event, name);
    line += cat(text.empty() ? "" : "  ", text);
  }
  while (line.ends_with(' ')) {
    line.pop_back();
  }
  return escape_for_terminal(line) + "\n";
}

std::string image_table(const Array& images, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& item : images) {
    if (item.is_object()) {
      const Object& image = item.get_object();
      const auto size = base::parse_number<int64_t>(field_text(image, "size_bytes"));
      rows.push_back({field_text(image, "name"),
                      field_text(image, "digest").substr(0, kDigestShown),
                      size ? format_bytes(*size) : "", field_text(image, "source"),
                      age(image, "created_at", now), age(image, "last_used_at", now),
                      field_text(image, "in_use") == "true" ? "yes" : "no"});
    }
  }
  return format_table({"NAME", "DIGEST", "SIZE", "SOURCE", "AGE", "LAST USED", "IN USE"}, rows);
}

}  // namespace cli
