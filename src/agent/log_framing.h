// The forms in which a session's log is told: bytes by length, bytes in chunks, lines of JSON in
// chunks, and WebSocket frames. Each belongs to one LogStream.
#pragma once

#include <optional>

#include "agent/log_stream.h"
#include "agent/text_encoder.h"

namespace agent {

// The bytes as they are; the head has told how many.
class PlainFraming final : public LogFraming {
 public:
  Framed frame(const SessionLog::Piece& piece, std::string_view bytes) override;
  [[nodiscard]] bool by_record() const override { return false; }
  std::optional<std::string> skipped(uint64_t from, uint64_t to) override;
  std::string finish(const Session& session, bool over) override;
};

// The bytes of one stream or both in chunks. A gap breaks the connection off: it must not look
// complete.
class ChunkFraming final : public LogFraming {
 public:
  explicit ChunkFraming(std::optional<OutputStream> only) : only_(only) {}
  Framed frame(const SessionLog::Piece& piece, std::string_view bytes) override;
  [[nodiscard]] bool by_record() const override { return only_.has_value(); }
  [[nodiscard]] bool wants(OutputStream stream) const override;
  std::optional<std::string> skipped(uint64_t from, uint64_t to) override;
  std::string finish(const Session& session, bool over) override;

 private:
  std::optional<OutputStream> only_;
};

// {"offset","next_offset","stream","time","data"}, {"keep_alive":true}, {"dropped":{...}},
// {"exit":{...}}, a line each. In base64 the data of each line stands for itself.
class LineFraming final : public LogFraming {
 public:
  LineFraming(std::optional<OutputStream> only, OutputEncoding encoding)
      : only_(only), encoding_(encoding) {}
  Framed frame(const SessionLog::Piece& piece, std::string_view bytes) override;
  [[nodiscard]] bool wants(OutputStream stream) const override;
  [[nodiscard]] std::string silence() override;
  std::optional<std::string> skipped(uint64_t from, uint64_t to) override;
  std::string finish(const Session& session, bool over) override;

 private:
  void add_data(std::string& line, OutputStream stream, std::string_view bytes);

  std::optional<OutputStream> only_;
  OutputEncoding encoding_;
  TextEncoder out_{OutputEncoding::utf8};
  TextEncoder err_{OutputEncoding::utf8};
};

// Binary frames with the channel first, and behind each the offset as a text frame.
class FrameFraming final : public LogFraming {
 public:
  // A terminal has one stream only.
  explicit FrameFraming(bool terminal) : terminal_(terminal) {}
  Framed frame(const SessionLog::Piece& piece, std::string_view bytes) override;
  [[nodiscard]] bool by_record() const override { return !terminal_; }
  [[nodiscard]] std::string silence() override;
  std::optional<std::string> skipped(uint64_t from, uint64_t to) override;
  std::string finish(const Session& session, bool over) override;

 private:
  bool terminal_;
};

// The text frame {"type":"offset","offset":N}.
std::string offset_frame(uint64_t offset);
// The text frame {"type":"exit","exit_code":N,"signal":…}.
std::string exit_frame(const RunOutcome& outcome);

}  // namespace agent
