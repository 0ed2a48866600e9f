#include "server/content_coding.h"

#include <gtest/gtest.h>

#include "server/content_stream.h"
#include "server/gateway_testing.h"
#include "server/openapi.h"

namespace server {
namespace {

Coding choose(const std::string& accept_encoding) { return choose_coding(&accept_encoding); }

// Bytes that are neither all alike nor without any order.
std::string mixed_bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>((state >> 24) & 0x3f);
  }
  return bytes;
}

TEST(ContentCoding, the_highest_quality_wins_and_zstd_among_equal_ones) {
  EXPECT_EQ(choose_coding(nullptr), Coding::identity);
  struct Case {
    std::string header;
    Coding coding;
  };
  for (const Case& row :
       {Case{"", Coding::identity}, Case{"identity", Coding::identity},
        Case{"br", Coding::identity}, Case{"gzip", Coding::gzip}, Case{"GZip", Coding::gzip},
        Case{"zstd", Coding::zstd}, Case{"gzip, deflate, br, zstd", Coding::zstd},
        Case{"zstd;q=0.5, gzip;q=0.6", Coding::gzip}, Case{"zstd;q=0.6,gzip;q=0.6", Coding::zstd},
        Case{"gzip;q=0", Coding::identity}, Case{"gzip;q=0.000, zstd;q=0.001", Coding::zstd},
        Case{"gzip; q=1.000", Coding::gzip}, Case{"gzip;q=0.4, identity;q=0.5", Coding::identity},
        Case{"gzip, identity", Coding::gzip}, Case{"*", Coding::gzip},
        Case{"*;q=0", Coding::identity}, Case{"gzip;q=0, *", Coding::identity},
        Case{"zstd;q=0, *;q=0.1", Coding::gzip}}) {
    EXPECT_EQ(choose(row.header), row.coding) << row.header;
  }
}

TEST(ContentCoding, a_quality_that_is_none_accepts_nothing) {
  for (const std::string bad : {"gzip;q=", "gzip;q=2", "gzip;q=-1", "gzip;q=0.1234", "gzip;q=1x",
                                "gzip;q=x", "gzip;level=9", "gzip;q=0.+1"}) {
    EXPECT_EQ(choose(bad), Coding::identity) << bad;
  }
}

TEST(ContentCoding, what_is_put_on_comes_off_again) {
  for (const Coding coding : {Coding::gzip, Coding::zstd}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{3'000'000}}) {
      const std::string plain = mixed_bytes(size);
      const std::string coded = encode_content(coding, plain);
      const auto again = decode_content(coding_name(coding), coded, size);
      ASSERT_TRUE(again.has_value()) << coding_name(coding) << " " << size;
      EXPECT_TRUE(*again == plain);
      if (size > 1000) {
        EXPECT_LT(coded.size(), size);
      }
    }
  }
}

TEST(ContentCoding, pieces_of_any_size_give_one_stream) {
  const std::string plain = mixed_bytes(1'000'000);
  for (const Coding coding : {Coding::gzip, Coding::zstd}) {
    const auto encoder = ContentEncoder::make(coding);
    std::string coded;
    for (size_t at = 0, step = 1; at < plain.size(); at += step, step = step * 3 + 1) {
      coded += encoder->add(std::string_view(plain).substr(at, step));
    }
    coded += encoder->finish();
    EXPECT_TRUE(decode_content(coding_name(coding), coded, plain.size()) == plain);
  }
}

TEST(ContentCoding, a_bomb_ends_at_its_limit_and_a_cut_stream_is_malformed) {
  for (const Coding coding : {Coding::gzip, Coding::zstd}) {
    const std::string bomb = encode_content(coding, std::string(10'000'000, 'x'));
    const auto name = coding_name(coding);
    EXPECT_EQ(decode_content(name, bomb, 9'999'999).error().code, base::ErrorCode::body_too_large);
    EXPECT_TRUE(decode_content(name, bomb, 10'000'000).has_value());
    EXPECT_EQ(decode_content(name, bomb.substr(0, bomb.size() - 3), 10'000'000).error().code,
              base::ErrorCode::malformed);
  }
}

// A frame that says that it has 256 bytes, and ends at once.
TEST(ContentCoding, a_frame_that_lies_about_its_size_is_malformed_however_it_comes) {
  const std::string frame("\x28\xb5\x2f\xfd\x60\x00\x00\x01\x00\x00", 10);
  for (const size_t step : {size_t{1}, size_t{8}, size_t{10}}) {
    const auto decoder = ContentDecoder::make("zstd", 1000).value();
    bool refused = false;
    for (size_t at = 0; at < frame.size() && !refused; at += step) {
      std::string_view input = std::string_view(frame).substr(at, step);
      while (!input.empty() && !refused) {
        refused = !decoder->next(input).has_value();
      }
    }
    EXPECT_TRUE(refused) << step;
  }
}

TEST(ContentCoding, frames_follow_one_another) {
  const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  const std::string frame = encode_content(Coding::zstd, "word");
  EXPECT_EQ(decode_content("zstd", skippable + frame + frame + skippable, 100).value(), "wordword");
  EXPECT_EQ(decode_content("zstd", frame + "x", 100).error().code, base::ErrorCode::malformed);
}

struct CodedBodies : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
};

TEST_F(CodedBodies, an_answer_comes_as_its_client_accepts_it) {
  const std::string document(openapi_json());
  for (const std::string coding : {"gzip", "zstd"}) {
    const Reply reply =
        gateway.call("GET", "/openapi.json", "", base::cat("accept-encoding: ", coding, "\r\n"));
    EXPECT_EQ(reply.header("content-encoding"), coding);
    EXPECT_EQ(reply.header("vary"), "accept-encoding");
    EXPECT_TRUE(decode_content(coding, reply.body, document.size()) == document);
  }
  const Reply plain = gateway.call("GET", "/openapi.json");
  EXPECT_EQ(plain.header("content-encoding"), "");
  EXPECT_TRUE(plain.body == document);
}

TEST_F(CodedBodies, an_upload_that_inflates_beyond_the_limit_is_refused) {
  gateway.application.coders.inflated_bytes_max = 1'000'000;
  const std::string path = "/sandboxes/" + gateway.make_ready() + "/files?path=/tmp/x";
  for (const Coding coding : {Coding::gzip, Coding::zstd}) {
    const std::string header = base::cat("content-encoding: ", coding_name(coding), "\r\n");
    const auto put = [&](size_t size) {
      return gateway.call("PUT", path, encode_content(coding, std::string(size, 'x')), header);
    };
    EXPECT_EQ(put(1'000'001).code(), "body_too_large");
    EXPECT_EQ(put(1'000'000).status, 200);
  }
  // What is not compressed has no such limit.
  EXPECT_EQ(gateway.call("PUT", path, std::string(2'000'000, 'x')).status, 200);
}

}  // namespace
}  // namespace server
