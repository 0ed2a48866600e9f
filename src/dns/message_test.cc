#include "dns/message.h"

#include <gtest/gtest.h>

namespace dns {
namespace {

using namespace std::string_literals;

const std::string kName = "\3www\7Example\3com\0"s;
const Question kQuestion{.wire_name = kName, .type = 1};

std::string query_bytes() { return make_query(0x1234, kQuestion); }

std::string record(const std::string& owner, uint16_t type, const std::string& data,
                   uint8_t ttl = 60) {
  const auto number = [](size_t value) {
    return std::string{static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
  };
  return owner + number(type) + "\0\1\0\0\0"s + static_cast<char>(ttl) + number(data.size()) + data;
}

std::string reply_bytes(const std::vector<std::string>& records, uint8_t flags = 0x81,
                        uint8_t code = 0x80) {
  std::string out = query_bytes();
  out[2] = static_cast<char>(flags);
  out[3] = static_cast<char>(code);
  out[7] = static_cast<char>(records.size());
  for (const std::string& one : records) {
    out += one;
  }
  return out;
}

base::Result<Reply> parse(const std::string& bytes) {
  return parse_reply(bytes, 0x1234, kQuestion);
}

TEST(DnsMessage, a_query_is_read) {
  const auto query = parse_query(query_bytes());
  ASSERT_TRUE(query.has_value());
  EXPECT_EQ(query->id, 0x1234);
  EXPECT_TRUE(query->recursion_desired);
  EXPECT_FALSE(query->extended);
  EXPECT_EQ(query->udp_bytes_max, 512U);
  EXPECT_EQ(query->question, kQuestion);
  EXPECT_EQ(host_name(query->question.wire_name), "www.example.com");
}

TEST(DnsMessage, what_a_client_takes_is_read_and_bounded) {
  const auto with = [](const std::string& size) {
    std::string bytes = query_bytes() + "\0\0\x29"s + size + "\0\0\0\0\0\0"s;
    bytes[11] = 1;
    return parse_query(bytes);
  };
  EXPECT_EQ(with("\x10\x00"s)->udp_bytes_max, 1232U);
  EXPECT_EQ(with("\0\x10"s)->udp_bytes_max, 512U);
  EXPECT_TRUE(with("\0\x10"s)->extended);
}

TEST(DnsMessage, a_query_cut_short_anywhere_is_refused) {
  const std::string bytes = query_bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse_query(bytes.substr(0, length)).has_value()) << length;
  }
}

TEST(DnsMessage, a_query_of_another_form_is_refused) {
  const auto changed = [](size_t at, char to) {
    std::string bytes = query_bytes();
    bytes[at] = to;
    return parse_query(bytes).has_value();
  };
  EXPECT_FALSE(changed(2, '\x81'));                    // an answer
  EXPECT_FALSE(changed(2, '\x28'));                    // an update
  EXPECT_FALSE(changed(5, 0));                         // no question
  EXPECT_FALSE(changed(5, 2));                         // two
  EXPECT_FALSE(changed(7, 1));                         // an answer with it
  EXPECT_FALSE(changed(12, '\x40'));                   // a label of an unknown kind
  EXPECT_FALSE(changed(query_bytes().size() - 1, 3));  // another class
}

TEST(DnsMessage, names_of_no_host_have_no_text) {
  EXPECT_EQ(host_name("\0"s), "");
  EXPECT_EQ(host_name("\3a.b\3com\0"s), "");
  EXPECT_EQ(host_name("\2a\0\3com\0"s), "");
  EXPECT_EQ(host_name("\4_srv\1A\0"s), "_srv.a");
}

TEST(DnsMessage, pointers_lead_backwards_only) {
  for (const std::string& owner : {"\xc0\x21"s, "\xc0\xff"s, "\xff\xff"s, "\1a\xc0\x21"s}) {
    EXPECT_FALSE(parse(reply_bytes({record(owner, 1, "\1\2\3\4")})).has_value());
  }
  // One to itself by way of another.
  EXPECT_FALSE(parse(reply_bytes({record("\xc0\x0c"s, 5, "\1a\xc0\x2d"s)})).has_value());
}

TEST(DnsMessage, a_name_put_together_by_pointers_is_not_too_long) {
  std::string label = "\x3f" + std::string(63, 'a');
  std::string data = label + label + label + label + "\0"s;  // 257 bytes
  EXPECT_FALSE(parse(reply_bytes({record("\xc0\x0c"s, 5, data)})).has_value());
}

TEST(DnsMessage, addresses_are_read_along_the_aliases) {
  const auto reply = parse(reply_bytes(
      {record("\xc0\x0c"s, 5, "\1b\2cd\0"s, 30), record("\1B\2cd\0"s, 1, "\1\2\3\4", 60),
       record("\1b\2cd\0"s, 1, "\1\2\3\5", 60), record("\1b\2cd\0"s, 1, "\1\2\3\4", 60),
       record("\1b\2cd\0"s, 28, std::string(16, 'x')), record("\4evil\0"s, 1, "\x7f\0\0\1"s)}));
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  ASSERT_EQ(reply->aliases.size(), 1U);
  EXPECT_EQ(reply->aliases[0].ttl_sec, 30U);
  ASSERT_EQ(reply->addresses.size(), 2U);
  EXPECT_EQ(reply->addresses[0].address, 0x01020304U);
  EXPECT_EQ(reply->addresses[1].address, 0x01020305U);
}

TEST(DnsMessage, a_ring_of_aliases_ends) {
  EXPECT_FALSE(
      parse(reply_bytes({record("\xc0\x0c"s, 5, "\1b\0"s), record("\1b\0"s, 5, "\xc0\x0c"s)}))
          .has_value());
}

TEST(DnsMessage, a_reply_to_another_question_is_none) {
  const auto bytes = reply_bytes({record("\xc0\x0c"s, 1, "\1\2\3\4")});
  EXPECT_TRUE(parse(bytes).has_value());
  EXPECT_FALSE(parse_reply(bytes, 0x1235, kQuestion).has_value());
  EXPECT_FALSE(parse_reply(bytes, 0x1234, {.wire_name = "\1a\0"s, .type = 1}).has_value());
  EXPECT_FALSE(parse_reply(bytes, 0x1234, {.wire_name = kName, .type = 28}).has_value());
  EXPECT_FALSE(parse(query_bytes()).has_value());
  // The same name in other letters is the same.
  EXPECT_TRUE(
      parse_reply(bytes, 0x1234, {.wire_name = "\3WWW\7example\3com\0"s, .type = 1}).has_value());
}

TEST(DnsMessage, records_of_wrong_lengths_are_refused) {
  EXPECT_FALSE(parse(reply_bytes({record("\xc0\x0c"s, 1, "\1\2\3")})).has_value());
  EXPECT_FALSE(parse(reply_bytes({record("\xc0\x0c"s, 1, "\1\2\3\4\5")})).has_value());
  EXPECT_FALSE(parse(reply_bytes({record("\xc0\x0c"s, 5, "\1a\0x"s)})).has_value());
  const auto whole = reply_bytes({record("\xc0\x0c"s, 1, "\1\2\3\4")});
  EXPECT_FALSE(parse(whole.substr(0, whole.size() - 1)).has_value());
}

TEST(DnsMessage, failures_and_truncation_are_told) {
  EXPECT_EQ(parse(reply_bytes({}, 0x81, 0x83))->code, Code::no_such_name);
  EXPECT_TRUE(parse(reply_bytes({}, 0x83, 0x80))->truncated);
}

TEST(DnsMessage, an_answer_is_read_back_as_it_was_meant) {
  const auto query = *parse_query(query_bytes());
  const Reply meant{.aliases = {{.wire_name = "\1b\2cd\0"s, .ttl_sec = 7}},
                    .addresses = {{.address = 0x01020304, .ttl_sec = 9}}};
  const auto read = parse(make_answer(query, meant, 512));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->aliases[0].wire_name, "\1b\2cd\0"s);
  EXPECT_EQ(read->addresses[0].address, 0x01020304U);
  EXPECT_EQ(read->addresses[0].ttl_sec, 9U);
}

TEST(DnsMessage, an_answer_that_does_not_fit_says_so) {
  auto query = *parse_query(query_bytes());
  Reply large;
  for (uint32_t i = 0; i < kAddressesMax; ++i) {
    large.addresses.push_back({.address = i, .ttl_sec = 1});
  }
  query.extended = true;
  const auto cut = make_answer(query, large, kUdpBytesMin);
  EXPECT_LE(cut.size(), kUdpBytesMin);
  EXPECT_TRUE(parse(cut)->truncated);
  EXPECT_EQ(parse(make_answer(query, large, kMessageBytesMax))->addresses.size(), kAddressesMax);
}

TEST(DnsMessage, makes_the_wire_form_of_a_hosts_name) {
  EXPECT_EQ(host_name(wire_name("WWW.example.com")), "www.example.com");
  EXPECT_EQ(wire_name("a"), std::string_view("\1a\0", 3));
  for (const std::string_view wrong : {"", ".", "a..b", "a b", "a.", "\xff"}) {
    EXPECT_EQ(wire_name(wrong), "") << wrong;
  }
  EXPECT_EQ(wire_name(std::string(64, 'a')), "");
  std::string long_name = "a";
  while (long_name.size() < 300) {
    long_name += ".a";
  }
  EXPECT_EQ(wire_name(long_name), "");
}

}  // namespace
}  // namespace dns
