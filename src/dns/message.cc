#include "dns/message.h"

#include <algorithm>

#include "base/host.h"

namespace dns {

using base::ErrorCode;
using base::Result;

namespace {

constexpr size_t kHeadBytes = 12;
constexpr uint16_t kAnswerFlag = 0x8000;
constexpr uint16_t kOperationMask = 0x7800;
constexpr uint16_t kTruncatedFlag = 0x0200;
constexpr uint16_t kRecursionDesired = 0x0100;
constexpr uint16_t kRecursionAvailable = 0x0080;
constexpr uint16_t kCodeMask = 0x000f;
constexpr uint16_t kClassInternet = 1;
constexpr uint8_t kPointerBits = 0xc0;
constexpr size_t kWireNameBytesMax = 255;
// A pointer to the question's name, which every message of ours has at the same place.
constexpr uint16_t kPointerToQuestion = 0xc000 | kHeadBytes;
constexpr size_t kOptRecordBytes = 11;
// Of one message: more than its size could hold are never there.
constexpr uint16_t kRecordsMax = 512;

std::unexpected<base::Error> broken(std::string_view what) {
  return base::fail(ErrorCode::malformed, "a DNS message with a broken ", what);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] size_t left() const { return bytes_.size() - at_; }
  Result<uint16_t> number16() {
    if (left() < 2) {
      return broken("number");
    }
    const auto value = static_cast<uint16_t>(byte(at_) << 8 | byte(at_ + 1));
    at_ += 2;
    return value;
  }
  Result<uint32_t> number32() {
    ASSIGN_OR_RETURN(const uint16_t high, number16());
    ASSIGN_OR_RETURN(const uint16_t low, number16());
    return uint32_t{high} << 16 | low;
  }
  Result<void> skip(size_t bytes) {
    if (left() < bytes) {
      return broken("length");
    }
    at_ += bytes;
    return {};
  }
  // Without pointers, as names are kept.
  Result<std::string> name() {
    std::string name;
    size_t at = at_;
    size_t before = at_;  // pointers lead to what is before this
    bool jumped = false;
    while (true) {
      if (at >= bytes_.size()) {
        return broken("name");
      }
      const uint8_t length = byte(at);
      if ((length & kPointerBits) == kPointerBits) {
        if (at + 1 >= bytes_.size()) {
          return broken("pointer");
        }
        const size_t target = static_cast<size_t>(length & ~kPointerBits) << 8 | byte(at + 1);
        if (target >= before) {
          return broken("pointer");
        }
        at_ = jumped ? at_ : at + 2;
        jumped = true;
        before = target;
        at = target;
        continue;
      }
      if (length > base::kHostLabelBytesMax || at + 1 + length > bytes_.size() ||
          name.size() + 1 + length > kWireNameBytesMax) {
        return broken("label");
      }
      name.append(bytes_.substr(at, size_t{1} + length));
      at += size_t{1} + length;
      if (length == 0) {
        at_ = jumped ? at_ : at;
        return name;
      }
    }
  }

 private:
  [[nodiscard]] uint8_t byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }

  std::string_view bytes_;
  size_t at_ = 0;
};

struct Head {
  uint16_t id = 0;
  uint16_t flags = 0;
  uint16_t questions = 0;
  uint16_t answers = 0;
  uint16_t authorities = 0;
  uint16_t additional = 0;
};

Result<Head> read_head(Reader& reader) {
  Head head;
  for (uint16_t* field : {&head.id, &head.flags, &head.questions, &head.answers, &head.authorities,
                          &head.additional}) {
    ASSIGN_OR_RETURN(*field, reader.number16());
  }
  if (head.answers > kRecordsMax || head.authorities > kRecordsMax ||
      head.additional > kRecordsMax) {
    return broken("count");
  }
  return head;
}

Result<Question> read_question(Reader& reader) {
  Question question;
  ASSIGN_OR_RETURN(question.wire_name, reader.name());
  ASSIGN_OR_RETURN(question.type, reader.number16());
  ASSIGN_OR_RETURN(const uint16_t network_class, reader.number16());
  if (network_class != kClassInternet) {
    return broken("class");
  }
  return question;
}

struct Record {
  std::string wire_name;
  uint16_t type = 0;
  uint16_t network_class = 0;
  uint32_t ttl_sec = 0;
  uint16_t bytes = 0;  // of the data, which is read or skipped by the caller
};

Result<Record> read_record(Reader& reader) {
  Record record;
  ASSIGN_OR_RETURN(record.wire_name, reader.name());
  ASSIGN_OR_RETURN(record.type, reader.number16());
  ASSIGN_OR_RETURN(record.network_class, reader.number16());
  ASSIGN_OR_RETURN(record.ttl_sec, reader.number32());
  ASSIGN_OR_RETURN(record.bytes, reader.number16());
  if (record.bytes > reader.left()) {
    return broken("record");
  }
  return record;
}

void put16(std::string& out, uint16_t number) {
  out += static_cast<char>(number >> 8);
  out += static_cast<char>(number & 0xff);
}

void put32(std::string& out, uint32_t number) {
  put16(out, static_cast<uint16_t>(number >> 16));
  put16(out, static_cast<uint16_t>(number & 0xffff));
}

void put_head(std::string& out, const Head& head) {
  for (const uint16_t field :
       {head.id, head.flags, head.questions, head.answers, head.authorities, head.additional}) {
    put16(out, field);
  }
}

void put_question(std::string& out, const Question& question) {
  out += question.wire_name;
  put16(out, question.type);
  put16(out, kClassInternet);
}

// Names compare without regard to case (RFC 4343). Lengths are below 'A', so no byte of them
// changes.
std::string folded(std::string_view wire_name) { return base::lower(wire_name); }

// One of the answers, as it was sent: an alias or an address.
struct Answer {
  std::string owner;   // folded
  std::string target;  // of an alias, as it came
  Address address;
  bool is_alias = false;
};

Result<std::vector<Answer>> read_answers(Reader& reader, uint16_t count) {
  std::vector<Answer> answers;
  for (uint16_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const Record record, read_record(reader));
    const size_t behind = reader.left() - record.bytes;
    Answer answer{.owner = folded(record.wire_name), .target = {}, .address = {}};
    answer.address.ttl_sec = record.ttl_sec;
    const bool is_internet = record.network_class == kClassInternet;
    if (is_internet && record.type == static_cast<uint16_t>(Type::a)) {
      ASSIGN_OR_RETURN(answer.address.address, reader.number32());
      answers.push_back(std::move(answer));
    } else if (is_internet && record.type == static_cast<uint16_t>(Type::cname)) {
      ASSIGN_OR_RETURN(answer.target, reader.name());
      answer.is_alias = true;
      answers.push_back(std::move(answer));
    } else {
      RETURN_IF_ERROR(reader.skip(record.bytes));
    }
    if (reader.left() != behind) {
      return broken("record");
    }
  }
  return answers;
}

// From the question's name along the aliases to the addresses; what is not on that way is nobody's.
Result<void> follow(const std::vector<Answer>& answers, const Question& question, Reply& reply) {
  std::string name = folded(question.wire_name);
  const auto is_next = [&name](const Answer& answer) {
    return answer.is_alias && answer.owner == name;
  };
  for (auto found = std::ranges::find_if(answers, is_next); found != answers.end();
       found = std::ranges::find_if(answers, is_next)) {
    if (reply.aliases.size() == kAliasesMax) {
      return broken("chain of aliases");
    }
    reply.aliases.push_back({.wire_name = found->target, .ttl_sec = found->address.ttl_sec});
    name = folded(found->target);
  }
  for (const Answer& answer : answers) {
    const auto is_same = [&answer](const Address& known) {
      return known.address == answer.address.address;
    };
    if (!answer.is_alias && answer.owner == name && reply.addresses.size() < kAddressesMax &&
        std::ranges::none_of(reply.addresses, is_same)) {
      reply.addresses.push_back(answer.address);
    }
  }
  return {};
}

std::string head_and_question(const Query& query, uint16_t flags, uint16_t answers) {
  std::string out;
  const uint16_t desired = query.recursion_desired ? kRecursionDesired : uint16_t{0};
  put_head(out,
           {.id = query.id,
            .flags = static_cast<uint16_t>(kAnswerFlag | kRecursionAvailable | desired | flags),
            .questions = 1,
            .answers = answers,
            .additional = query.extended ? uint16_t{1} : uint16_t{0}});
  put_question(out, query.question);
  return out;
}

void put_opt(std::string& out, const Query& query) {
  if (query.extended) {
    out += '\0';  // the root
    put16(out, static_cast<uint16_t>(Type::opt));
    put16(out, static_cast<uint16_t>(kUdpBytesMax));
    put32(out, 0);
    put16(out, 0);
  }
}

}  // namespace

std::string host_name(std::string_view wire_name) {
  std::string text;
  size_t at = 0;
  while (at < wire_name.size() && wire_name[at] != '\0') {
    const auto length = static_cast<uint8_t>(wire_name[at]);
    const std::string label = base::lower(wire_name.substr(at + 1, length));
    if (!std::ranges::all_of(label, base::is_host_character)) {
      return {};
    }
    text += base::cat(text.empty() ? "" : ".", label);
    at += size_t{1} + length;
  }
  return text;
}

std::string wire_name(std::string_view host_name) {
  std::string name;
  for (const std::string_view label : base::split(host_name, '.')) {
    if (label.empty() || label.size() > base::kHostLabelBytesMax) {
      return {};
    }
    name += base::cat(static_cast<char>(label.size()), base::lower(label));
  }
  name += '\0';
  return name.size() <= kWireNameBytesMax && !dns::host_name(name).empty() ? name : std::string();
}

Result<Query> parse_query(std::string_view bytes) {
  Reader reader(bytes);
  ASSIGN_OR_RETURN(const Head head, read_head(reader));
  if ((head.flags & (kAnswerFlag | kOperationMask | kTruncatedFlag)) != 0 || head.questions != 1 ||
      head.answers != 0 || head.authorities != 0) {
    return broken("head");
  }
  Query query{.id = head.id, .recursion_desired = (head.flags & kRecursionDesired) != 0};
  ASSIGN_OR_RETURN(query.question, read_question(reader));
  for (uint16_t i = 0; i < head.additional; ++i) {
    ASSIGN_OR_RETURN(const Record record, read_record(reader));
    RETURN_IF_ERROR(reader.skip(record.bytes));
    if (record.type == static_cast<uint16_t>(Type::opt)) {
      query.extended = true;
      query.udp_bytes_max = std::clamp<size_t>(record.network_class, kUdpBytesMin, kUdpBytesMax);
    }
  }
  return query;
}

bool parse_id(std::string_view bytes, uint16_t& id) {
  Reader reader(bytes);
  const auto head = read_head(reader);
  if (!head || (head->flags & kAnswerFlag) != 0) {
    return false;
  }
  id = head->id;
  return true;
}

Result<Reply> parse_reply(std::string_view bytes, uint16_t id, const Question& question) {
  Reader reader(bytes);
  ASSIGN_OR_RETURN(const Head head, read_head(reader));
  if (head.id != id || (head.flags & kAnswerFlag) == 0 || (head.flags & kOperationMask) != 0 ||
      head.questions != 1) {
    return broken("head");
  }
  ASSIGN_OR_RETURN(const Question asked, read_question(reader));
  if (asked.type != question.type || folded(asked.wire_name) != folded(question.wire_name)) {
    return broken("question");
  }
  Reply reply{.code = static_cast<Code>(head.flags & kCodeMask),
              .truncated = (head.flags & kTruncatedFlag) != 0};
  if (reply.truncated || reply.code != Code::no_error) {
    return reply;  // what there is of answers is asked for again, or means nothing
  }
  ASSIGN_OR_RETURN(const auto answers, read_answers(reader, head.answers));
  RETURN_IF_ERROR(follow(answers, question, reply));
  return reply;
}

std::string make_query(uint16_t id, const Question& question) {
  std::string out;
  put_head(out, {.id = id, .flags = kRecursionDesired, .questions = 1});
  put_question(out, question);
  return out;
}

std::string make_answer(const Query& query, const Reply& reply, size_t bytes_max) {
  const auto code = static_cast<uint16_t>(reply.code);
  const size_t count = reply.aliases.size() + reply.addresses.size();
  std::string out = head_and_question(query, code, static_cast<uint16_t>(count));
  std::string owner;  // empty: the question's name
  const auto put_owner = [&out, &owner] {
    if (owner.empty()) {
      put16(out, kPointerToQuestion);
    } else {
      out += owner;
    }
  };
  const auto put_fixed = [&out](Type type, uint32_t ttl_sec, size_t bytes) {
    put16(out, static_cast<uint16_t>(type));
    put16(out, kClassInternet);
    put32(out, ttl_sec);
    put16(out, static_cast<uint16_t>(bytes));
  };
  for (const Reply::Alias& alias : reply.aliases) {
    put_owner();
    put_fixed(Type::cname, alias.ttl_sec, alias.wire_name.size());
    out += alias.wire_name;
    owner = alias.wire_name;
  }
  for (const Address& address : reply.addresses) {
    put_owner();
    put_fixed(Type::a, address.ttl_sec, sizeof address.address);
    put32(out, address.address);
  }
  if (out.size() + (query.extended ? kOptRecordBytes : 0) > bytes_max) {
    out = head_and_question(query, code | kTruncatedFlag, 0);
  }
  put_opt(out, query);
  return out;
}

std::string make_error(uint16_t id, Code code) {
  std::string out;
  put_head(out,
           {.id = id, .flags = static_cast<uint16_t>(kAnswerFlag | static_cast<uint16_t>(code))});
  return out;
}

}  // namespace dns
