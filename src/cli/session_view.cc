#include "cli/session_view.h"

#include <algorithm>

#include "cli/format.h"

namespace cli {

using base::cat;
using wire::json::Array;
using wire::json::Object;

namespace {

constexpr size_t kCommandShown = 60;

const Object* object_field(const Object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

std::string nested(const Object& object, std::string_view outer, std::string_view inner) {
  const Object* value = object_field(object, outer);
  return value == nullptr ? "" : field_text(*value, inner);
}

// The command as one would type it, roughly: for the eye only.
std::string command_text(const Object& session) {
  const auto* argv = session.if_contains("argv");
  if (argv == nullptr || !argv->is_array()) {
    return field_text(session, "command");
  }
  std::string out;
  for (const auto& word : argv->get_array()) {
    const std::string text =
        word.is_string() ? std::string(std::string_view(word.get_string())) : "";
    const bool plain = !text.empty() && text.find_first_of(" \t\n'\"\\$") == text.npos;
    out += cat(out.empty() ? "" : " ", plain ? "" : "'", text, plain ? "" : "'");
  }
  return out;
}

std::string exit_text(const Object& session) {
  std::string text = field_text(session, "exit_code");
  const std::string signal = field_text(session, "signal");
  if (!signal.empty()) {
    text += cat(" (", signal, ")");
  }
  if (field_text(session, "timed_out") == "true") {
    text += " (timed out)";
  }
  if (field_text(session, "oom_killed") == "true") {
    text += " (out of memory)";
  }
  return text;
}

}  // namespace

std::string session_table(const Array& sessions, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& item : sessions) {
    if (const Object* session = item.if_object()) {
      const std::string started = field_text(*session, "started_at");
      rows.push_back({field_text(*session, "id"), field_text(*session, "name"),
                      field_text(*session, "state"), exit_text(*session),
                      started.empty() ? "" : format_age(started, now),
                      clip_columns(escape_for_terminal(command_text(*session)), kCommandShown)});
    }
  }
  return format_table({"ID", "NAME", "STATE", "EXIT", "AGE", "COMMAND"}, rows);
}

std::string session_details(const Object& session, base::WallTime now) {
  const auto time = [&](std::string_view name) {
    const std::string text = field_text(session, name);
    return text.empty() ? text : cat(text, " (", format_age(text, now), " ago)");
  };
  const auto bytes = [&](std::string_view name) {
    const auto number = base::parse_number<int64_t>(nested(session, "log", name));
    return number ? format_bytes(*number) : "";
  };
  const std::string columns = nested(session, "tty", "cols");
  return format_pairs(
      {{"Id", field_text(session, "id")},
       {"Name", field_text(session, "name")},
       {"State", field_text(session, "state")},
       {"Exit", exit_text(session)},
       {"Command", command_text(session)},
       {"Pid", field_text(session, "pid")},
       {"Terminal", columns.empty() ? "" : cat(columns, " x ", nested(session, "tty", "rows"))},
       {"Started", time("started_at")},
       {"Ended", time("ended_at")},
       {"Output", bytes("end_offset")},
       {"No longer kept", bytes("start_offset")},
       {"Dropped", bytes("dropped_bytes")}});
}

}  // namespace cli
