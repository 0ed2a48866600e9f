#include "node/record.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "jail/shell_plan.h"
#include "wire/json.h"

namespace node {
namespace {

using base::Fd;
using base::Result;

constexpr size_t kRecordBytesMax = size_t{1} << 20;
constexpr size_t kProcFileBytesMax = 4096;
constexpr mode_t kRecordMode = 0600;
constexpr size_t kStartTimeField = 22;  // of proc_pid_stat(5), counted from 1
constexpr size_t kFirstFieldBehindName = 3;

wire::json::Array list(const std::vector<std::string>& texts) {
  wire::json::Array out;
  for (const std::string& text : texts) {
    out.emplace_back(text);
  }
  return out;
}

Result<RecordedProcess> read_process(wire::json::Reader& reader) {
  ASSIGN_OR_RETURN(const auto pid, reader.required<int64_t>("pid"));
  ASSIGN_OR_RETURN(const auto start_time, reader.required<int64_t>("start_time"));
  return RecordedProcess{.pid = static_cast<pid_t>(pid),
                         .start_time = static_cast<uint64_t>(start_time)};
}

Result<RecordedContainer> parse_container(const wire::json::Value& value) {
  if (!value.is_object()) {
    return base::fail(base::ErrorCode::malformed, "a container of a record is no object");
  }
  wire::json::Reader reader(value.get_object());
  RecordedContainer out;
  ASSIGN_OR_RETURN(out.name, reader.required<std::string>("name"));
  ASSIGN_OR_RETURN(out.process, read_process(reader));
  ASSIGN_OR_RETURN(out.image_digest, reader.required<std::string>("image_digest"));
  ASSIGN_OR_RETURN(out.layers, reader.required<std::vector<std::string>>("layers"));
  return out;
}

}  // namespace

std::string to_text(const Record& record) {
  wire::json::Array others;
  for (const RecordedContainer& other : record.others) {
    others.push_back(
        wire::json::Object{{"name", other.name},
                           {"pid", static_cast<int64_t>(other.process.pid)},
                           {"start_time", static_cast<int64_t>(other.process.start_time)},
                           {"image_digest", other.image_digest},
                           {"layers", list(other.layers)}});
  }
  return wire::json::serialize(wire::json::Object{
      {"id", record.id},
      {"index", static_cast<int64_t>(record.index)},
      {"pid", static_cast<int64_t>(record.process.pid)},
      {"start_time", static_cast<int64_t>(record.process.start_time)},
      {"boot_id", record.boot_id},
      {"image", record.image},
      {"image_digest", record.image_digest},
      {"layers", list(record.layers)},
      {"network", model::to_text(record.network)},
      {"network_mark", static_cast<int64_t>(record.network_mark)},
      {"pull_ms", record.pull_ms},
      {"start_ms", record.start_ms},
      {"grouped", record.grouped},
      {"others", std::move(others)},
  });
}

Result<Record> parse_record(std::string_view text) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  Record record;
  ASSIGN_OR_RETURN(record.id, reader.required<std::string>("id"));
  ASSIGN_OR_RETURN(const auto index, reader.required<int64_t>("index"));
  ASSIGN_OR_RETURN(record.process, read_process(reader));
  ASSIGN_OR_RETURN(record.boot_id, reader.required<std::string>("boot_id"));
  ASSIGN_OR_RETURN(record.image, reader.required<std::string>("image"));
  ASSIGN_OR_RETURN(record.image_digest, reader.required<std::string>("image_digest"));
  ASSIGN_OR_RETURN(record.layers, reader.required<std::vector<std::string>>("layers"));
  // Absent in one of an earlier version, which knew no allow-list.
  ASSIGN_OR_RETURN(const auto network, reader.optional<std::string>("network"));
  ASSIGN_OR_RETURN(const auto mark, reader.optional<int64_t>("network_mark"));
  if (network) {
    ASSIGN_OR_RETURN(record.network, model::parse_network_policy(*network));
  }
  record.network_mark = static_cast<uint32_t>(mark.value_or(0));
  ASSIGN_OR_RETURN(record.pull_ms, reader.required<int64_t>("pull_ms"));
  ASSIGN_OR_RETURN(record.start_ms, reader.required<int64_t>("start_ms"));
  record.index = static_cast<uint32_t>(index);
  // Absent in what an earlier version wrote.
  ASSIGN_OR_RETURN(const auto grouped, reader.optional<bool>("grouped"));
  record.grouped = grouped.value_or(false);
  ASSIGN_OR_RETURN(const auto others, reader.optional<wire::json::Array>("others"));
  for (const wire::json::Value& value : others.value_or(wire::json::Array{})) {
    ASSIGN_OR_RETURN(auto other, parse_container(value));
    record.others.push_back(std::move(other));
  }
  return record;
}

Result<void> write_record(const std::string& folder, const Record& record) {
  return base::sys::replace_file(folder + "/record.json", to_text(record), kRecordMode);
}

Result<Record> read_record(const std::string& folder) {
  const std::string path = folder + "/record.json";
  ASSIGN_OR_RETURN(const std::string text, base::sys::read_file(path, kRecordBytesMax));
  return base::with_context(parse_record(text), path);
}

Result<uint64_t> read_start_time(pid_t pid) {
  const std::string path = base::cat("/proc/", pid, "/stat");
  ASSIGN_OR_RETURN(const std::string text, base::sys::read_file(path, kProcFileBytesMax));
  // The name, in parentheses, may hold anything; the fields are counted from behind it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > text.size()) {
    return base::fail(base::ErrorCode::internal, path, " is cut short");
  }
  const auto fields = base::split(std::string_view(text).substr(name_end + 2), ' ');
  const size_t position = kStartTimeField - kFirstFieldBehindName;
  const auto value =
      position < fields.size() ? base::parse_number<uint64_t>(fields[position]) : std::nullopt;
  if (!value) {
    return base::fail(base::ErrorCode::internal, path, " has no start time");
  }
  return *value;
}

std::string read_boot_id() {
  const auto text = base::sys::read_file("/proc/sys/kernel/random/boot_id", kProcFileBytesMax);
  return text ? text->substr(0, text->find('\n')) : "";
}

Result<Survivor> find_survivor(const std::string& boot_id, const RecordedProcess& process) {
  Survivor survivor;
  if (boot_id != read_boot_id()) {
    return base::fail(base::ErrorCode::not_found, "the host was restarted");
  }
  survivor.process = Fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!survivor.process) {
    return base::fail(base::ErrorCode::not_found, "process ", process.pid, " has ended");
  }
  // The descriptor first: from here on the number cannot come to mean another process.
  const auto start_time = read_start_time(process.pid);
  if (!start_time || *start_time != process.start_time) {
    return base::fail(base::ErrorCode::not_found, "process ", process.pid, " is another one");
  }
  ASSIGN_OR_RETURN(
      const std::string name,
      base::sys::read_file(base::cat("/proc/", process.pid, "/comm"), kProcFileBytesMax));
  survivor.executed = name != base::cat(jail::kShellName, "\n");
  return survivor;
}

}  // namespace node
