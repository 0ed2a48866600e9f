// Messages of the domain name system (RFC 1035), as little of it as answering for addresses takes:
// one question of class IN, answers of types A and CNAME. Pure: bytes in, values out, and back.
// Whatever is not in that form is an error (malformed); pointers only ever lead backwards, so
// reading ends. Bounded by kMessageBytesMax, kAliasesMax and kAddressesMax.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dns {

inline constexpr size_t kMessageBytesMax = 65'535;
// Of an answer over UDP: what every client takes, and what passes everywhere unfragmented.
inline constexpr size_t kUdpBytesMin = 512;
inline constexpr size_t kUdpBytesMax = 1232;
inline constexpr size_t kAliasesMax = 16;
inline constexpr size_t kAddressesMax = 64;

enum class Type : uint16_t { a = 1, cname = 5, opt = 41 };
enum class Code : uint8_t {
  no_error = 0,
  format_error = 1,
  server_failure = 2,
  no_such_name = 3,
  not_implemented = 4,
  refused = 5,
};

struct Question {
  std::string wire_name;  // labels with their lengths, as they came, with the final zero
  uint16_t type = 0;

  bool operator==(const Question&) const = default;
};
// "www.example.com": in lower case, without a dot at its end; empty for the root and for a name
// that no host has (other characters than letters, digits, '-' and '_').
std::string host_name(std::string_view wire_name);
// The other way round; empty for what cannot be a host's name.
std::string wire_name(std::string_view host_name);

struct Query {
  uint16_t id = 0;
  bool recursion_desired = false;
  bool extended = false;                // has an OPT record (EDNS), so the answer gets one
  size_t udp_bytes_max = kUdpBytesMin;  // that the client takes
  Question question;
};
// What a sandbox sent. The error's message is for nobody's eyes.
base::Result<Query> parse_query(std::string_view bytes);
// Whether it is worth an answer, and to which id: the head of a message that is no answer itself.
bool parse_id(std::string_view bytes, uint16_t& id);

struct Address {
  uint32_t address = 0;  // host byte order
  uint32_t ttl_sec = 0;
};
// What a server said of a name: the aliases that lead from it to one with addresses.
struct Reply {
  Code code = Code::no_error;
  bool truncated = false;
  struct Alias {
    std::string wire_name;
    uint32_t ttl_sec = 0;
  };
  std::vector<Alias> aliases;
  std::vector<Address> addresses;  // each once
};
// What a server sent to the query with that id and question; anything else is an error.
base::Result<Reply> parse_reply(std::string_view bytes, uint16_t id, const Question& question);

// A query that asks for recursion.
std::string make_query(uint16_t id, const Question& question);
// An answer of at most `bytes_max`; where it does not fit, it says so (truncated) and is empty.
std::string make_answer(const Query& query, const Reply& reply, size_t bytes_max);
// The head alone, for what could not be read.
std::string make_error(uint16_t id, Code code);

}  // namespace dns
