#include "wire/audit_chain.h"

#include <openssl/evp.h>

#include <array>

#include "base/clock.h"
#include "base/text.h"
#include "wire/json.h"

namespace wire {
namespace {

using base::ErrorCode;
using base::Result;

constexpr std::string_view kPrev = ",\"prev\":\"";
constexpr std::string_view kHash = "\",\"hash\":\"";
constexpr std::string_view kEnd = "\"}";
constexpr size_t kHexBytes = 64;
// Of a line whose row is in the chain, and of one that is older.
constexpr size_t kTailBytes = kPrev.size() + kHexBytes + kHash.size() + kHexBytes + kEnd.size();
constexpr std::string_view kOlderTail = ",\"prev\":\"\",\"hash\":\"\"}";

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // EVP_sha256() would look the algorithm up again at each row.
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_Digest(text.data(), text.size(), digest.data(), &size, algorithm, nullptr);
  return base::hex(std::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

void add_text(std::string& out, std::string_view name, std::string_view text) {
  out += base::cat(",\"", name, "\":");
  out += text.empty() ? "null" : json::serialize(json::Value(text));
}

// The line up to the end of its details.
std::string line_start(const model::AuditRow& row) {
  std::string out =
      base::cat("{\"id\":", row.id, ",\"at\":\"", base::rfc3339(base::from_ms(row.at_ms)), "\"");
  add_text(out, "team", row.team);
  add_text(out, "event", row.event);
  add_text(out, "sandbox", row.sandbox);
  add_text(out, "caller", row.caller);
  add_text(out, "token", row.token);
  add_text(out, "remote", row.remote);
  out += row.status == 0 ? std::string(",\"status\":null") : base::cat(",\"status\":", row.status);
  add_text(out, "error", row.error);
  out += row.duration_ms < 0 ? std::string(",\"duration_ms\":null")
                             : base::cat(",\"duration_ms\":", row.duration_ms);
  out += ",\"details\":";
  out += row.details_json.empty() ? "{}" : row.details_json;
  return out;
}

std::string hash_of(const std::string& start, std::string_view prev) {
  // With the quote that ends the value: the bytes before `,"hash":`.
  return sha256(base::cat(start, kPrev, prev, kHash.substr(0, 1)));
}

bool is_hex_digest(std::string_view text) {
  return text.size() == kHexBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct Line {
  int64_t id = 0;
  std::string_view prev;  // both empty: older than the chain
  std::string_view hash;
  std::string_view hashed;  // what the hash is over
};

Result<Line> take_apart(std::string_view line) {
  constexpr std::string_view kStart = "{\"id\":";
  const size_t comma = line.find(',');
  const auto id =
      line.starts_with(kStart) && comma != std::string_view::npos
          ? base::parse_number<int64_t>(line.substr(kStart.size(), comma - kStart.size()))
          : std::nullopt;
  if (!id || line.size() > kAuditLineBytesMax) {
    return base::fail(ErrorCode::malformed, "this is no line of an audit log");
  }
  if (line.ends_with(kOlderTail)) {
    return Line{.id = *id};
  }
  if (line.size() > kTailBytes) {
    const std::string_view tail = line.substr(line.size() - kTailBytes);
    const std::string_view prev = tail.substr(kPrev.size(), kHexBytes);
    const std::string_view rest = tail.substr(kPrev.size() + kHexBytes);
    const std::string_view hash = rest.substr(kHash.size(), kHexBytes);
    if (tail.starts_with(kPrev) && rest.starts_with(kHash) && rest.ends_with(kEnd) &&
        is_hex_digest(prev) && is_hex_digest(hash)) {
      const size_t behind = kHash.size() - 1 + kHexBytes + kEnd.size();
      return Line{
          .id = *id, .prev = prev, .hash = hash, .hashed = line.substr(0, line.size() - behind)};
    }
  }
  return base::fail(ErrorCode::malformed, "row ", *id, " of the audit log has no hash");
}

template <typename... Parts>
std::unexpected<base::Error> broken(int64_t row, const Parts&... parts) {
  auto error = base::fail(ErrorCode::conflict, parts...);
  error.error().details.emplace_back("row", base::cat(row));
  return error;
}

// What a kAuditCutEvent tells: the last row that it took.
std::optional<model::AuditHead> told_cut(std::string_view line) {
  if (!line.contains(kAuditCutEvent)) {
    return std::nullopt;
  }
  const auto row = json::parse_object(line);
  if (!row) {
    return std::nullopt;
  }
  const auto* event = row->if_contains("event");
  const auto* details = row->if_contains("details");
  const auto* object = details == nullptr ? nullptr : details->if_object();
  if (event == nullptr || !event->is_string() || event->get_string() != kAuditCutEvent ||
      object == nullptr) {
    return std::nullopt;
  }
  const auto* through = object->if_contains("through");
  const auto* hash = object->if_contains("hash");
  if (through == nullptr || !through->is_int64() || hash == nullptr || !hash->is_string()) {
    return std::nullopt;
  }
  return model::AuditHead{.id = through->get_int64(), .hash = std::string(hash->get_string())};
}

}  // namespace

std::string audit_hash(const model::AuditRow& row, std::string_view prev) {
  return hash_of(line_start(row), prev);
}

std::string audit_line(const model::AuditRow& row, std::string_view prev) {
  std::string line = line_start(row);
  if (row.hash.empty()) {
    line += kOlderTail;
    return line;
  }
  line += kPrev;
  line += prev;
  line += kHash;
  line += row.hash;
  line += kEnd;
  return line;
}

std::string audit_cut_details(const model::AuditHead& last, int64_t count) {
  return json::serialize(json::Object{{"through", last.id}, {"hash", last.hash}, {"count", count}});
}

Result<void> AuditVerifier::check_noted(int64_t id, std::string_view hash) {
  if (!noted_ || noted_->id != id) {
    return {};
  }
  if (noted_->hash != hash) {
    return broken(id, "row ", id, " is not the one whose hash was noted: the log was written anew");
  }
  noted_found_ = true;
  return {};
}

Result<void> AuditVerifier::add(std::string_view text) {
  ASSIGN_OR_RETURN(const Line line, take_apart(text));
  const bool is_first = report_.rows == 0;
  const int64_t expected = report_.head.id + 1;
  if (!is_first && line.id > expected) {
    return broken(expected, "rows ", expected, " to ", line.id - 1, " are missing");
  }
  if (!is_first && line.id < expected) {
    return broken(line.id, "row ", line.id, " stands behind row ", report_.head.id);
  }
  const bool is_older = line.hash.empty();
  if (is_older && is_chained_) {
    return broken(line.id, "row ", line.id, " has no hash although rows before it have one");
  }
  if (is_older) {
    ++report_.older_rows;
  } else {
    if (sha256(line.hashed) != line.hash) {
      return broken(line.id, "row ", line.id, " is not what was written: its hash is another");
    }
    const std::string_view before =
        is_chained_ ? std::string_view(report_.head.hash) : kAuditGenesis;
    if (!is_first && line.prev != before) {
      return broken(line.id, "row ", line.id, " does not follow the row before it");
    }
    is_chained_ = true;
  }
  if (is_first) {
    report_.first_id = line.id;
    first_prev_ = line.prev;
  }
  if (const auto cut = told_cut(text)) {
    cut_is_told_ = cut_is_told_ || (cut->id + 1 == report_.first_id && cut->hash == first_prev_);
  }
  ++report_.rows;
  report_.head = {.id = line.id, .hash = std::string(line.hash)};
  return check_noted(line.id, line.hash);
}

Result<AuditVerifier::Report> AuditVerifier::finish() const {
  const bool begins_whole = first_prev_.empty() || first_prev_ == kAuditGenesis;
  if (report_.rows > 0 && !begins_whole && !cut_is_told_) {
    return broken(report_.first_id, "rows before ", report_.first_id,
                  " are missing, and no row tells of a cut");
  }
  Report report = report_;
  if (noted_ && !noted_found_) {
    report.noted_is_cut = report_.rows > 0 && noted_->id < report_.first_id;
    if (!report.noted_is_cut && noted_->id > 0) {
      return broken(report_.head.id + 1, "the log ends with row ", report_.head.id, ", but row ",
                    noted_->id, " was noted: its end is missing");
    }
  }
  return report;
}

std::string audit_head_text(const model::AuditHead& head) {
  return base::cat(head.id, ":", head.hash);
}

Result<model::AuditHead> parse_audit_head(std::string_view text) {
  const size_t colon = text.find(':');
  const auto id = base::parse_number<int64_t>(text.substr(0, colon));
  const std::string_view hash =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (!id || *id < 0 || !is_hex_digest(hash)) {
    return base::fail_field("noted", "a noted head is ID:HASH, as `audit head` prints it");
  }
  return model::AuditHead{.id = *id, .hash = std::string(hash)};
}

std::string audit_report(const AuditVerifier::Report& report) {
  if (report.rows == 0) {
    return "the audit log is empty";
  }
  std::string out = base::cat("the audit log is whole: rows ", report.first_id, " to ",
                              report.head.id, ", head ", audit_head_text(report.head));
  if (report.older_rows > 0) {
    out += base::cat("; ", report.older_rows, " rows are older than the chain");
  }
  if (report.noted_is_cut) {
    out += "; the noted row is older than what is kept";
  }
  return out;
}

}  // namespace wire
