#include "agent/log_framing.h"

#include "wire/http1.h"
#include "wire/websocket.h"

namespace agent {
namespace {

using wire::websocket::make_frame;
using wire::websocket::Opcode;

constexpr char kChannelOut = 1;
constexpr char kChannelErr = 2;

std::string chunk(std::string_view bytes) {
  return base::cat(wire::http::chunk_head(bytes.size()), bytes, "\r\n");
}

std::string gap(uint64_t from, uint64_t to) {
  return base::cat("\"start_offset\":", from, ",\"end_offset\":", to, "}");
}

bool is_wanted(const std::optional<OutputStream>& only, OutputStream stream) {
  return !only || *only == stream;
}

std::string_view name_of(OutputStream stream) {
  return stream == OutputStream::out ? "stdout" : "stderr";
}

}  // namespace

LogFraming::Framed PlainFraming::frame(const SessionLog::Piece& /*piece*/, std::string_view bytes) {
  return {.head = {}, .body = bytes, .tail = {}};
}
std::optional<std::string> PlainFraming::skipped(uint64_t /*from*/, uint64_t /*to*/) {
  return std::nullopt;
}
std::string PlainFraming::finish(const Session& /*session*/, bool /*over*/) { return {}; }

LogFraming::Framed ChunkFraming::frame(const SessionLog::Piece& /*piece*/, std::string_view bytes) {
  return {.head = wire::http::chunk_head(bytes.size()), .body = bytes, .tail = "\r\n"};
}
bool ChunkFraming::wants(OutputStream stream) const { return is_wanted(only_, stream); }
std::optional<std::string> ChunkFraming::skipped(uint64_t /*from*/, uint64_t /*to*/) {
  return std::nullopt;
}
std::string ChunkFraming::finish(const Session& /*session*/, bool /*over*/) {
  return std::string(wire::http::kLastChunk);
}

bool LineFraming::wants(OutputStream stream) const { return is_wanted(only_, stream); }

void LineFraming::add_data(std::string& line, OutputStream stream, std::string_view bytes) {
  if (encoding_ == OutputEncoding::base64) {
    line += base::base64(bytes);
    return;
  }
  (stream == OutputStream::out ? out_ : err_).add(line, bytes);
}

LogFraming::Framed LineFraming::frame(const SessionLog::Piece& piece, std::string_view bytes) {
  std::string line =
      base::cat("{\"offset\":", piece.offset, ",\"next_offset\":", piece.offset + bytes.size(),
                ",\"stream\":\"", name_of(piece.stream), "\",\"time\":\"",
                base::rfc3339(base::from_ms(piece.time_ms)), "\",\"data\":\"");
  const size_t before = line.size();
  add_data(line, piece.stream, bytes);
  if (line.size() == before) {
    return {};  // a part of a character: the rest is to come
  }
  line += "\"}\n";
  Framed framed{.head = wire::http::chunk_head(line.size()), .body = {}, .tail = "\r\n"};
  framed.head += line;
  return framed;
}

std::string LineFraming::silence() { return chunk("{\"keep_alive\":true}\n"); }

std::optional<std::string> LineFraming::skipped(uint64_t from, uint64_t to) {
  return chunk(base::cat("{\"dropped\":{", gap(from, to), "}\n"));
}

std::string LineFraming::finish(const Session& session, bool over) {
  std::string lines;
  const uint64_t end = session.log().end_offset();
  for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
    std::string rest;
    (stream == OutputStream::out ? out_ : err_).finish(rest);
    if (!rest.empty()) {
      lines += base::cat("{\"offset\":", end, ",\"next_offset\":", end, ",\"stream\":\"",
                         name_of(stream), "\",\"data\":\"", rest, "\"}\n");
    }
  }
  if (over) {
    lines += base::cat("{\"exit\":", session.exit_json(), "}\n");
  }
  return base::cat(lines.empty() ? "" : chunk(lines), wire::http::kLastChunk);
}

std::string offset_frame(uint64_t offset) {
  return make_frame(Opcode::text, base::cat("{\"type\":\"offset\",\"offset\":", offset, "}"));
}

std::string exit_frame(const RunOutcome& outcome) {
  return make_frame(
      Opcode::text,
      base::cat("{\"type\":\"exit\",\"exit_code\":", outcome.exit_code, ",\"signal\":",
                outcome.signal.empty() ? "null" : base::cat('"', outcome.signal, '"'), "}"));
}

LogFraming::Framed FrameFraming::frame(const SessionLog::Piece& piece, std::string_view bytes) {
  const wire::websocket::FrameHead head(Opcode::binary, bytes.size() + 1);
  const bool err = !terminal_ && piece.stream == OutputStream::err;
  return {.head = base::cat(head.bytes(), err ? kChannelErr : kChannelOut),
          .body = bytes,
          .tail = offset_frame(piece.offset + bytes.size())};
}

std::string FrameFraming::silence() { return make_frame(Opcode::ping, ""); }

std::optional<std::string> FrameFraming::skipped(uint64_t from, uint64_t to) {
  return make_frame(Opcode::text, base::cat("{\"type\":\"dropped\",", gap(from, to)));
}

std::string FrameFraming::finish(const Session& session, bool over) {
  std::string frames;
  if (over) {
    frames += exit_frame(session.outcome());
  }
  return frames + make_frame(Opcode::close,
                             wire::websocket::close_payload(wire::websocket::kCloseNormal, ""));
}

}  // namespace agent
