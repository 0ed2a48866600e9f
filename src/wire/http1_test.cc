#include "wire/http1.h"

#include <gtest/gtest.h>

#include <string>

namespace wire::http {
namespace {

using base::ErrorCode;

ErrorCode code_of(const auto& result) { return result ? ErrorCode::internal : result.error().code; }

Result<Request> request(std::string_view rest) {
  return parse_request(base::cat("POST /x HTTP/1.1\r\nhost: h\r\n", rest, "\r\n"));
}

TEST(FindHead, waits_for_the_empty_line) {
  EXPECT_EQ(*find_head("GET / HTTP/1.1\r\nhost: h\r\n"), std::nullopt);
  EXPECT_EQ(*find_head("GET / HTTP/1.1\r\n\r\nbody"), 18U);
  EXPECT_EQ(code_of(find_head("GET / HTTP/1.1\n\n")), ErrorCode::malformed);
}

TEST(FindHead, refuses_a_head_past_its_bound) {
  EXPECT_EQ(code_of(find_head(std::string(kHeadBytesMax, 'x'))), ErrorCode::headers_too_large);
  EXPECT_TRUE(find_head(std::string(kHeadBytesMax - 1, 'x')));
}

TEST(ParseRequest, takes_method_target_and_headers) {
  const auto parsed = parse_request(
      "PUT /a%2Fb?path=%2Fc%20d&x HTTP/1.1\r\nHost: h\r\nX-A:\t v w \r\nExpect: 100-Continue\r\n"
      "Content-Length: 12\r\n\r\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->method, "PUT");
  EXPECT_EQ(parsed->path, "/a%2Fb");
  EXPECT_EQ(*parsed->parameter("path"), "/c d");
  EXPECT_EQ(*parsed->parameter("x"), "");
  EXPECT_EQ(*parsed->parameter("y"), std::nullopt);
  ASSERT_NE(parsed->find("x-a"), nullptr);
  EXPECT_EQ(*parsed->find("x-a"), "v w");
  EXPECT_TRUE(parsed->expect_continue);
  EXPECT_TRUE(parsed->keep_alive);
  EXPECT_EQ(parsed->body, BodyKind::length);
  EXPECT_EQ(parsed->content_length, 12U);
}

TEST(ParseRequest, reduces_the_absolute_form_to_its_path) {
  const auto parsed = parse_request("GET http://h:1/p?q=1 HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->path, "/p");
  EXPECT_EQ(parsed->query, "q=1");
  EXPECT_EQ(parse_request("GET http://h HTTP/1.1\r\n\r\n")->path, "/");
}

TEST(ParseRequest, keep_alive_follows_version_and_header) {
  EXPECT_FALSE(parse_request("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parse_request("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n")->keep_alive);
  const auto old = parse_request(
      "POST / HTTP/1.0\r\nupgrade: websocket\r\nexpect: 100-continue\r\nx: y\r\n\r\n");
  EXPECT_FALSE(old->expect_continue);
  EXPECT_EQ(old->find("upgrade"), nullptr);
  EXPECT_NE(old->find("x"), nullptr);
  EXPECT_FALSE(parse_request("GET / HTTP/1.1\r\nconnection: x, Close\r\n\r\n")->keep_alive);
}

TEST(ParseRequest, refuses_malformed_request_lines) {
  for (const char* line :
       {"GET /", "GET  / HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1", "G@T / HTTP/1.1",
        "GET / HTTP/2.0", "GET / http/1.1", "GET /\x01 HTTP/1.1", "GET x HTTP/1.1",
        "GET /\xC3\xA4 HTTP/1.1", "GET / x HTTP/1.1", "", "GET /\n/ HTTP/1.1"}) {
    EXPECT_EQ(code_of(parse_request(base::cat(line, "\r\n\r\n"))), ErrorCode::malformed) << line;
  }
}

// Each row is a known way to make two parsers disagree about where a message ends.
TEST(ParseRequest, refuses_every_smuggling_shape) {
  const struct {
    const char* name;
    const char* headers;
  } rows[] = {
      {"both lengths", "content-length: 5\r\ntransfer-encoding: chunked\r\n"},
      {"both lengths, other order", "transfer-encoding: chunked\r\ncontent-length: 5\r\n"},
      {"repeated length", "content-length: 5\r\ncontent-length: 6\r\n"},
      {"repeated same length", "content-length: 5\r\ncontent-length: 5\r\n"},
      {"list of lengths", "content-length: 5, 5\r\n"},
      {"signed length", "content-length: +5\r\n"},
      {"negative length", "content-length: -5\r\n"},
      {"hexadecimal length", "content-length: 0x5\r\n"},
      {"length with a blank inside", "content-length: 5 5\r\n"},
      {"empty length", "content-length:\r\n"},
      {"length past 64 bits", "content-length: 18446744073709551616\r\n"},
      {"unknown coding", "transfer-encoding: gzip, chunked\r\n"},
      {"chunked not last", "transfer-encoding: chunked, identity\r\n"},
      {"repeated coding", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"},
      {"identity", "transfer-encoding: identity\r\n"},
      {"quoted coding", "transfer-encoding: \"chunked\"\r\n"},
      {"vertical tab before the coding",
       "transfer-encoding: \x0b"
       "chunked\r\n"},
      {"blank before the colon", "content-length : 5\r\n"},
      {"folded line", "x: a\r\n content-length: 5\r\n"},
      {"tab folded line", "x: a\r\n\tb\r\n"},
      {"bare LF between headers", "x: a\ncontent-length: 5\r\n"},
      {"bare CR in a value", "x: a\rcontent-length: 5\r\n"},
      {"no name", ": x\r\n"},
      {"no colon", "content-length\r\n"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(code_of(request(row.headers)), ErrorCode::malformed) << row.name;
  }
  const std::string nul = base::cat("x: a", '\0', "b\r\n");
  EXPECT_EQ(code_of(request(nul)), ErrorCode::malformed);
}

TEST(ParseRequest, refuses_more_headers_than_its_bound) {
  std::string headers;
  for (size_t i = 1; i < kHeadersMax; ++i) {  // the host header is there already
    headers += "a: b\r\n";
  }
  EXPECT_TRUE(request(headers));
  EXPECT_EQ(code_of(request(headers + "a: b\r\n")), ErrorCode::headers_too_large);
}

TEST(RequestParameter, refuses_doubles_and_broken_escapes) {
  const auto twice = parse_request("GET /?a=1&a=2 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(code_of(twice->parameter("a")), ErrorCode::malformed);
  const auto broken = parse_request("GET /?a=%2 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(code_of(broken->parameter("a")), ErrorCode::malformed);
  const auto plus = parse_request("GET /?a=1+2 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(*plus->parameter("a"), "1+2");
}

TEST(ParseResponse, body_follows_status_and_method) {
  const std::string_view with_length = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
  EXPECT_EQ(parse_response(with_length, "GET")->body, BodyKind::length);
  EXPECT_EQ(parse_response(with_length, "HEAD")->body, BodyKind::none);
  EXPECT_EQ(parse_response("HTTP/1.1 204 No Content\r\n\r\n", "GET")->body, BodyKind::none);
  EXPECT_EQ(parse_response("HTTP/1.1 200 OK\r\n\r\n", "GET")->body, BodyKind::until_close);
  EXPECT_EQ(parse_response("HTTP/1.1 200\r\n\r\n", "GET")->status, 200);
}

TEST(ParseResponse, refuses_malformed_status_lines) {
  for (const char* line : {"HTTP/1.1 20", "HTTP/1.1 099 x", "HTTP/1.1 600 x", "HTTP/1.1 2000",
                           "HTTP/3 200 OK", "HTTP/1.1  200 OK", "200 OK", ""}) {
    EXPECT_EQ(code_of(parse_response(base::cat(line, "\r\n\r\n"), "GET")), ErrorCode::malformed)
        << line;
  }
}

// The payload of `body` fed in pieces of `piece` bytes, or the code it fails with.
Result<std::string> decode(std::string_view headers, std::string_view body, size_t piece,
                           size_t* unused = nullptr) {
  ASSIGN_OR_RETURN(const Request head, request(headers));
  BodyDecoder decoder(head);
  std::string payload;
  std::string pending;
  while (!decoder.finished() && !(body.empty() && pending.empty())) {
    const size_t size = std::min(piece, body.size());
    pending += body.substr(0, size);
    body.remove_prefix(size);
    while (!pending.empty() && !decoder.finished()) {
      ASSIGN_OR_RETURN(const auto step, decoder.next(pending));
      payload += step.payload;
      pending.erase(0, step.consumed);
    }
  }
  RETURN_IF_ERROR(decoder.end_of_input());
  if (unused != nullptr) {
    *unused = pending.size() + body.size();
  }
  return payload;
}

constexpr std::string_view kChunked = "transfer-encoding: chunked\r\n";

TEST(BodyDecoder, gives_the_same_payload_however_the_bytes_arrive) {
  const std::string_view body =
      "5\r\nhello\r\n1;ext=\"a\"\r\n \r\n00A\r\n0123456789\r\n0\r\nx-trailer: 1\r\n\r\nNEXT";
  for (size_t piece = 1; piece <= body.size(); ++piece) {
    size_t unused = 0;
    EXPECT_EQ(decode(kChunked, body, piece, &unused), "hello 0123456789") << piece;
    EXPECT_EQ(unused, 4U) << piece;
  }
}

TEST(BodyDecoder, length_body_stops_at_its_length) {
  for (size_t piece = 1; piece <= 8; ++piece) {
    size_t unused = 0;
    EXPECT_EQ(decode("content-length: 5\r\n", "helloNXT", piece, &unused), "hello") << piece;
    EXPECT_EQ(unused, 3U) << piece;
  }
}

TEST(BodyDecoder, refuses_broken_chunk_framing) {
  for (const char* body : {"5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "g\r\n", "-1\r\n",
                           "0x5\r\nhello\r\n", "\r\n", "5\r\nhello0\r\n\r\n",
                           "10000000000000000\r\n", "5 5\r\nhello\r\n", "+5\r\nhello\r\n"}) {
    EXPECT_EQ(code_of(decode(kChunked, body, 1000)), ErrorCode::malformed) << body;
  }
}

TEST(BodyDecoder, bounds_chunk_lines_and_trailers) {
  const std::string long_line = "5;" + std::string(2000, 'x') + "\r\nhello\r\n0\r\n\r\n";
  EXPECT_EQ(code_of(decode(kChunked, long_line, 1)), ErrorCode::malformed);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 1000; ++i) {
    trailers += "x-trailer: some value\r\n";
  }
  EXPECT_EQ(code_of(decode(kChunked, trailers + "\r\n", 1000)), ErrorCode::headers_too_large);
}

TEST(BodyDecoder, end_inside_a_body_is_an_error) {
  EXPECT_EQ(code_of(decode("content-length: 5\r\n", "hell", 10)), ErrorCode::connection_closed);
  EXPECT_EQ(code_of(decode(kChunked, "5\r\nhello\r\n0\r\n", 10)), ErrorCode::connection_closed);
}

TEST(BodyDecoder, skip_counts_like_bytes_read) {
  BodyDecoder decoder(*request("content-length: 10\r\n"));
  EXPECT_EQ(decoder.left(), 10U);
  decoder.skip(4);
  EXPECT_EQ(decoder.left(), 6U);
  EXPECT_FALSE(decoder.finished());
  decoder.skip(6);
  EXPECT_TRUE(decoder.finished());
}

TEST(HeadBuilder, no_header_can_be_smuggled_in) {
  const std::string head = HeadBuilder::response(200)
                               .add("x-name", "a\r\nset-cookie: b\nc\0d\re")
                               .add_length(0)
                               .finish();
  const auto parsed = parse_response(head, "GET");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->headers.size(), 2U);
  EXPECT_EQ(parsed->find("set-cookie"), nullptr);
}

TEST(ChunkHead, is_read_back_by_the_decoder) {
  for (const size_t size : {1UL, 15UL, 16UL, 255UL, 65536UL}) {
    const std::string body =
        base::cat(chunk_head(size), std::string(size, 'x'), "\r\n", kLastChunk);
    EXPECT_EQ(decode(kChunked, body, 4096), std::string(size, 'x'));
  }
}

TEST(BodyDecoder, more_chunks_than_it_may_have_are_refused_before_their_bytes) {
  Head head;
  head.body = BodyKind::chunked;
  BodyDecoder decoder(head);
  decoder.limit(10);
  std::string_view input = "6\r\nabcdef\r\n5\r\nabcde\r\n0\r\n\r\n";
  std::string payload;
  for (;;) {
    const auto step = decoder.next(input);
    if (!step) {
      EXPECT_EQ(step.error().code, base::ErrorCode::body_too_large);
      break;
    }
    ASSERT_FALSE(decoder.finished());
    payload += step->payload;
    input.remove_prefix(step->consumed);
  }
  EXPECT_EQ(payload, "abcdef");
}

}  // namespace
}  // namespace wire::http
