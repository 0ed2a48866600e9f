// Messages of sandboxes and of name servers: neither breaks anything, and what was read is written
// in a form that is read the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dns/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  uint16_t id = 0;
  const bool has_id = dns::parse_id(bytes, id);
  if (const auto query = dns::parse_query(bytes)) {
    const auto again = dns::parse_query(dns::make_query(query->id, query->question));
    if (!has_id || id != query->id || !again || again->question != query->question ||
        dns::host_name(query->question.wire_name).size() > 253) {
      std::abort();
    }
    const auto empty = dns::make_answer(*query, {}, dns::kUdpBytesMin);
    if (!dns::parse_reply(empty, query->id, query->question)) {
      std::abort();
    }
  }
  // As a reply to the question of "a.bc", id 1, which the seeds answer.
  using namespace std::string_literals;
  const dns::Query asked{.id = 1, .question = {.wire_name = "\1a\2bc\0"s, .type = 1}};
  if (const auto reply = dns::parse_reply(bytes, 1, asked.question)) {
    const auto answer = dns::make_answer(asked, *reply, dns::kMessageBytesMax);
    const auto again = dns::parse_reply(answer, 1, asked.question);
    if (!again || again->addresses.size() != reply->addresses.size() ||
        again->aliases.size() != reply->aliases.size()) {
      std::abort();
    }
  }
  return 0;
}
