#include "wire/http1.h"

#include <algorithm>
#include <array>

namespace wire::http {
namespace {

using base::ErrorCode;
using base::fail;

constexpr size_t kChunkLineBytesMax = 1024;  // size and extensions
constexpr size_t kTrailerBytesMax = size_t{8} * 1024;

bool is_token_char(char c) {
  constexpr std::string_view kSymbols = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kSymbols.find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

bool is_value_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
}

bool has_token(std::string_view list, std::string_view token) {
  for (const std::string_view part : base::split(list, ',')) {
    if (base::equals_ignoring_case(base::trim(part), token)) {
      return true;
    }
  }
  return false;
}

// Cuts one line off the front of `head`, which ends with CRLF by construction.
std::string_view cut_line(std::string_view& head) {
  const size_t end = head.find("\r\n");
  const std::string_view line = head.substr(0, end);
  head.remove_prefix(std::min(head.size(), end + 2));
  return line;
}

Result<void> parse_headers(std::string_view head, Head& out) {
  for (std::string_view line = cut_line(head); !line.empty(); line = cut_line(head)) {
    if (out.headers.size() == kHeadersMax) {
      return fail(ErrorCode::headers_too_large, "more than ", kHeadersMax, " headers");
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return fail(ErrorCode::malformed, "malformed header line");
    }
    const std::string_view value = base::trim(line.substr(colon + 1));
    if (!std::ranges::all_of(value, is_value_char)) {
      return fail(ErrorCode::malformed, "control character in a header");
    }
    out.headers.push_back({base::lower(line.substr(0, colon)), std::string(value)});
  }
  return {};
}

Result<void> read_framing(Head& head) {
  bool has_length = false;
  bool has_coding = false;
  for (const Header& header : head.headers) {
    if (header.name == "content-length") {
      const auto length = base::parse_number<uint64_t>(header.value);
      if (!length || has_length) {
        return fail(ErrorCode::malformed, "malformed Content-Length");
      }
      has_length = true;
      head.body = BodyKind::length;
      head.content_length = *length;
    } else if (header.name == "transfer-encoding") {
      if (has_coding || !base::equals_ignoring_case(header.value, "chunked")) {
        return fail(ErrorCode::malformed, "only the transfer coding 'chunked' is supported");
      }
      has_coding = true;
      head.body = BodyKind::chunked;
    } else if (header.name == "connection") {
      head.keep_alive = has_token(header.value, "close")        ? false
                        : has_token(header.value, "keep-alive") ? true
                                                                : head.keep_alive;
    }
  }
  if (has_length && has_coding) {
    return fail(ErrorCode::malformed, "both Content-Length and Transfer-Encoding");
  }
  return {};
}

// "HTTP/1.1" or "HTTP/1.0"; sets keep_alive to the version's default.
Result<void> read_version(std::string_view version, Head& head) {
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return fail(ErrorCode::malformed, "not HTTP/1.1");
  }
  head.keep_alive = version == "HTTP/1.1";
  return {};
}

bool is_target_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7F;
}

}  // namespace

const std::string* Head::find(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &Header::name);
  return found == headers.end() ? nullptr : &found->value;
}

Result<std::vector<std::pair<std::string, std::string>>> Request::parameters() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (query.empty()) {
    return out;
  }
  for (const std::string_view part : base::split(query, '&')) {
    if (part.empty()) {
      continue;
    }
    const size_t equals = part.find('=');
    const auto name = base::percent_decode(part.substr(0, equals));
    const auto value = base::percent_decode(
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1));
    if (!name || !value) {
      return fail(ErrorCode::malformed, "broken percent-encoding in the query");
    }
    out.emplace_back(*name, *value);
  }
  return out;
}

Result<std::optional<std::string>> Request::parameter(std::string_view name) const {
  ASSIGN_OR_RETURN(auto all, parameters());
  std::optional<std::string> value;
  for (auto& [key, text] : all) {
    if (key != name) {
      continue;
    }
    if (value) {
      return fail(ErrorCode::malformed, "query parameter '", name, "' is given twice");
    }
    value = std::move(text);
  }
  return value;
}

Result<std::optional<size_t>> find_head(std::string_view bytes) {
  const std::string_view looked_at = bytes.substr(0, kHeadBytesMax);
  const size_t end = looked_at.find("\r\n\r\n");
  if (end != std::string_view::npos) {
    return end + 4;
  }
  // An empty line without CR will never become a head that we take: said at once, not when the
  // time for it is over.
  if (looked_at.contains("\n\n")) {
    return fail(ErrorCode::malformed, "a line of the head does not end with CR LF");
  }
  if (bytes.size() >= kHeadBytesMax) {
    return fail(ErrorCode::headers_too_large, "request line and headers exceed ", kHeadBytesMax,
                " bytes");
  }
  return std::nullopt;
}

Result<Request> parse_request(std::string_view head) {
  Request request;
  const std::string_view line = cut_line(head);
  const auto parts = base::split(line, ' ');
  if (parts.size() != 3 || !is_token(parts[0]) || parts[1].empty() ||
      !std::ranges::all_of(parts[1], is_target_char)) {
    return fail(ErrorCode::malformed, "malformed request line");
  }
  RETURN_IF_ERROR(read_version(parts[2], request));
  request.method = parts[0];
  request.target = parts[1];
  // The absolute form of RFC 9112 3.2.2 is reduced to its path.
  std::string_view target = parts[1];
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.starts_with(scheme)) {
      const size_t slash = target.find('/', scheme.size());
      target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    }
  }
  if (target.front() != '/' && target != "*") {
    return fail(ErrorCode::malformed, "malformed request target");
  }
  const size_t fragment = target.find('#');
  target = target.substr(0, fragment);
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  RETURN_IF_ERROR(parse_headers(head, request));
  if (parts[2] == "HTTP/1.0") {  // knows neither (RFC 9110 7.8 and 10.1.1)
    std::erase_if(request.headers, [](const Header& header) {
      return header.name == "upgrade" || header.name == "expect";
    });
  }
  RETURN_IF_ERROR(read_framing(request));
  if (const std::string* expect = request.find("expect")) {
    request.expect_continue = base::equals_ignoring_case(*expect, "100-continue");
  }
  return request;
}

Result<Response> parse_response(std::string_view head, std::string_view request_method) {
  Response response;
  const std::string_view line = cut_line(head);
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.size() < blank + 4) {
    return fail(ErrorCode::malformed, "malformed status line");
  }
  RETURN_IF_ERROR(read_version(line.substr(0, blank), response));
  const auto status = base::parse_number<int>(line.substr(blank + 1, 3));
  const bool status_ends = line.size() == blank + 4 || line[blank + 4] == ' ';
  if (!status || *status < 100 || *status > 599 || !status_ends) {
    return fail(ErrorCode::malformed, "malformed status line");
  }
  response.status = *status;
  RETURN_IF_ERROR(parse_headers(head, response));
  RETURN_IF_ERROR(read_framing(response));
  const bool no_body =
      request_method == "HEAD" || *status < 200 || *status == 204 || *status == 304;
  if (no_body) {
    response.body = BodyKind::none;
  } else if (response.body == BodyKind::none) {
    response.body = BodyKind::until_close;
    response.keep_alive = false;
  }
  return response;
}

Result<BodyDecoder::Step> BodyDecoder::next(std::string_view input) {
  if (finished_ || input.empty()) {
    return Step{};
  }
  switch (kind_) {
    case BodyKind::none:
      return Step{};
    case BodyKind::until_close:
      return Step{.consumed = input.size(), .payload = input};
    case BodyKind::length: {
      const size_t size = static_cast<size_t>(std::min<uint64_t>(left_, input.size()));
      skip(size);
      return Step{.consumed = size, .payload = input.substr(0, size)};
    }
    case BodyKind::chunked:
      return next_chunked(input);
  }
  return Step{};
}

void BodyDecoder::skip(uint64_t bytes) {
  left_ -= std::min(left_, bytes);
  if (left_ > 0) {
    return;
  }
  if (kind_ == BodyKind::length) {
    finished_ = true;
  } else if (kind_ == BodyKind::chunked && chunk_ == Chunk::data) {
    chunk_ = Chunk::data_end;
  }
}

Result<BodyDecoder::Step> BodyDecoder::next_chunked(std::string_view input) {
  if (chunk_ == Chunk::data) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(left_, input.size()));
    skip(size);
    return Step{.consumed = size, .payload = input.substr(0, size)};
  }
  // A line: a chunk's size, the empty one behind its data, or a trailer.
  const size_t feed = input.find('\n');
  const size_t taken = feed == std::string_view::npos ? input.size() : feed + 1;
  line_ += input.substr(0, taken);
  if (line_.size() > kChunkLineBytesMax) {
    return fail(ErrorCode::malformed, "chunk line too long");
  }
  const Step step{.consumed = taken, .payload = {}};
  if (feed == std::string_view::npos) {
    return step;
  }
  if (!line_.ends_with("\r\n")) {
    return fail(ErrorCode::malformed, "chunk line without CRLF");
  }
  const std::string line = std::exchange(line_, {});
  const std::string_view text = std::string_view(line).substr(0, line.size() - 2);
  if (chunk_ == Chunk::data_end) {
    if (!text.empty()) {
      return fail(ErrorCode::malformed, "chunk longer than its size");
    }
    chunk_ = Chunk::size;
  } else if (chunk_ == Chunk::trailer) {
    trailer_bytes_ += line.size();
    if (trailer_bytes_ > kTrailerBytesMax) {
      return fail(ErrorCode::headers_too_large, "trailers too long");
    }
    finished_ = text.empty();
  } else {
    const auto size = base::parse_number<uint64_t>(base::trim(text.substr(0, text.find(';'))), 16);
    if (!size) {
      return fail(ErrorCode::malformed, "malformed chunk size");
    }
    if (*size > most_) {
      return fail(ErrorCode::body_too_large, "the body is longer than it may be");
    }
    most_ -= *size;
    left_ = *size;
    chunk_ = *size == 0 ? Chunk::trailer : Chunk::data;
  }
  return step;
}

Result<void> BodyDecoder::end_of_input() {
  if (kind_ == BodyKind::until_close) {
    finished_ = true;
  }
  if (!finished_) {
    return fail(ErrorCode::connection_closed, "the connection ended inside a body");
  }
  return {};
}

std::string_view reason_phrase(int status) {
  struct Row {
    int status;
    std::string_view phrase;
  };
  static constexpr auto kRows = std::to_array<Row>({
      {100, "Continue"},
      {101, "Switching Protocols"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {416, "Range Not Satisfiable"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {507, "Insufficient Storage"},
  });
  const auto* found = std::ranges::find(kRows, status, &Row::status);
  return found == kRows.end() ? "Unknown" : found->phrase;
}

HeadBuilder HeadBuilder::response(int status) {
  HeadBuilder builder;
  builder.text_ = base::cat("HTTP/1.1 ", status, " ", reason_phrase(status), "\r\n");
  return builder;
}

HeadBuilder HeadBuilder::request(std::string_view method, std::string_view target) {
  HeadBuilder builder;
  builder.text_ = base::cat(method, " ", target, " HTTP/1.1\r\n");
  return builder;
}

HeadBuilder& HeadBuilder::add(std::string_view name, std::string_view value) {
  text_ += name;
  text_ += ": ";
  for (const char c : value) {
    text_ += is_value_char(c) ? c : ' ';
  }
  text_ += "\r\n";
  return *this;
}

HeadBuilder& HeadBuilder::add_length(uint64_t bytes) {
  return add("content-length", base::cat(bytes));
}

HeadBuilder& HeadBuilder::add_chunked() { return add("transfer-encoding", "chunked"); }

std::string HeadBuilder::finish() {
  text_ += "\r\n";
  return std::move(text_);
}

std::string chunk_head(size_t bytes) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes, 16);
  return base::cat(std::string_view(digits.data(), end.ptr), "\r\n");
}

}  // namespace wire::http
