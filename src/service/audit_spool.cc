#include "service/audit_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "wire/json.h"

namespace service {
namespace {

using base::Result;

// Some ten thousand actions; written anew beyond it, which takes about as long as one write.
constexpr size_t kSpoolBytesMax = size_t{4} * 1024 * 1024;
// What open() reads at most: several times what a process leaves.
constexpr size_t kReadBytesMax = size_t{256} * 1024 * 1024;
constexpr mode_t kMode = 0600;

// Lines: "B NUMBER {...}\n" begins, "E NUMBER...\n" ends, "S ID\n" is what was stored then.
std::string begin_line(uint64_t number, const model::AuditRow& row, std::string_view request_id) {
  using wire::json::Value;
  std::string out = base::cat("B ", number, " ");
  out += wire::json::serialize(wire::json::Object{{"request_id", request_id},
                                                  {"at_ms", row.at_ms},
                                                  {"team", row.team},
                                                  {"sandbox", row.sandbox},
                                                  {"event", row.event},
                                                  {"caller", row.caller},
                                                  {"token", row.token},
                                                  {"remote", row.remote},
                                                  {"details", row.details_json}});
  out += '\n';
  return out;
}

Result<AuditSpool::Unfinished> parse_begin(uint64_t number, std::string_view text) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  AuditSpool::Unfinished out{.number = number};
  ASSIGN_OR_RETURN(out.request_id, reader.required<std::string>("request_id"));
  ASSIGN_OR_RETURN(out.row.at_ms, reader.required<int64_t>("at_ms"));
  ASSIGN_OR_RETURN(out.row.team, reader.required<std::string>("team"));
  ASSIGN_OR_RETURN(out.row.sandbox, reader.required<std::string>("sandbox"));
  ASSIGN_OR_RETURN(out.row.event, reader.required<std::string>("event"));
  ASSIGN_OR_RETURN(out.row.caller, reader.required<std::string>("caller"));
  ASSIGN_OR_RETURN(out.row.token, reader.required<std::string>("token"));
  ASSIGN_OR_RETURN(out.row.remote, reader.required<std::string>("remote"));
  ASSIGN_OR_RETURN(out.row.details_json, reader.required<std::string>("details"));
  return out;
}

}  // namespace

Result<std::unique_ptr<AuditSpool>> AuditSpool::open(const std::string& path,
                                                     std::vector<Unfinished>& unfinished) {
  base::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!file) {
    return base::fail_errno(errno, "open ", path);
  }
  std::unique_ptr<AuditSpool> spool(new AuditSpool(path, std::move(file)));
  ASSIGN_OR_RETURN(const std::string text, base::sys::read_file(path, kReadBytesMax));
  for (const std::string_view line : base::split(text, '\n')) {
    const auto words = base::split(line, ' ');
    const auto number = words.size() > 1 ? base::parse_number<uint64_t>(words[1]) : std::nullopt;
    if (!number) {
      continue;
    }
    if (words[0] == "B") {
      spool->open_[*number] = base::cat(line, "\n");
      spool->last_number_ = std::max(spool->last_number_, *number);
    } else if (words[0] == "S") {
      spool->stored_through_ = static_cast<int64_t>(*number);
    } else if (words[0] == "E") {
      for (size_t i = 1; i < words.size(); ++i) {
        spool->open_.erase(base::parse_number<uint64_t>(words[i]).value_or(0));
      }
    }
  }
  for (auto at = spool->open_.begin(); at != spool->open_.end();) {
    const std::string_view line = at->second;
    auto parsed = parse_begin(
        at->first,
        line.substr(line.find('{') == std::string_view::npos ? line.size() : line.find('{')));
    if (parsed) {
      unfinished.push_back(std::move(*parsed));
      spool->open_bytes_ += line.size();
      ++at;
    } else {
      at = spool->open_.erase(at);
    }
  }
  spool->file_bytes_ = text.size();
  spool->is_cut_ = !text.empty() && !text.ends_with('\n');
  // Where there is no room for it anew, it goes on as it is until there is.
  [[maybe_unused]] const auto rewritten = spool->rewrite();
  return spool;
}

Result<void> AuditSpool::write(std::string_view line) {
  // One write each: with O_APPEND a line is there or it is not, but for a disk that is full.
  const std::string text = base::cat(is_cut_ ? "\n" : "", line);
  const ssize_t written = ::write(file_.get(), text.data(), text.size());
  if (written < 0) {
    return base::fail_errno(errno, "write ", path_);
  }
  file_bytes_ += static_cast<size_t>(written);
  is_cut_ = static_cast<size_t>(written) < text.size();
  if (is_cut_) {
    return base::fail_errno(ENOSPC, "write ", path_);
  }
  return {};
}

Result<void> AuditSpool::rewrite() {
  std::string text = base::cat("S ", stored_through_, "\n");
  for (const auto& [number, line] : open_) {
    text += line;
  }
  RETURN_IF_ERROR(base::sys::replace_file(path_, text, kMode));
  base::Fd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file) {
    return base::fail_errno(errno, "open ", path_);
  }
  file_ = std::move(file);
  file_bytes_ = text.size();
  is_cut_ = false;
  return {};
}

Result<uint64_t> AuditSpool::begin(const model::AuditRow& row, std::string_view request_id) {
  std::string line = begin_line(last_number_ + 1, row, request_id);
  RETURN_IF_ERROR(write(line));
  ++last_number_;
  open_bytes_ += line.size();
  open_.emplace(last_number_, std::move(line));
  return last_number_;
}

void AuditSpool::end(const std::vector<uint64_t>& numbers, int64_t stored_through) {
  std::string line;
  for (const uint64_t number : numbers) {
    if (const auto found = open_.find(number); found != open_.end()) {
      line += base::cat(line.empty() ? "E " : " ", number);
      open_bytes_ -= found->second.size();
      open_.erase(found);
    }
  }
  if (stored_through > stored_through_) {
    stored_through_ = stored_through;
    line += base::cat(line.empty() ? "S " : "\nS ", stored_through);
  }
  if (line.empty()) {
    return;
  }
  // What cannot be written is only looked for again at the next start.
  [[maybe_unused]] const auto written = write(line + "\n");
  if (file_bytes_ > kSpoolBytesMax + 2 * open_bytes_) {
    [[maybe_unused]] const auto rewritten = rewrite();
  }
}

}  // namespace service
