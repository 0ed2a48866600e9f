#include "agent/session_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/text.h"

namespace agent {
namespace {

// The byte that stands at an offset.
char byte_at(uint64_t offset) { return static_cast<char>((offset * 2654435761U) >> 20U); }

std::string bytes_from(uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = byte_at(offset + i);
  }
  return bytes;
}

void expect_readable(const SessionLog& log) {
  std::vector<char> buffer(50'000);
  for (uint64_t at = log.start_offset(); at < log.end_offset();) {
    const auto size = log.read(at, buffer);
    ASSERT_TRUE(size.has_value());
    ASSERT_TRUE(std::string_view(buffer.data(), *size) == bytes_from(at, *size)) << at;
    at += *size;
  }
}

// A pipe of bytes into the log, as a session reads a flood: into the mapping where there is one.
void pour(SessionLog& log, size_t size, int64_t now_ms) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const base::Fd out(ends[0]);
  const base::Fd in(ends[1]);
  const std::string bytes = bytes_from(log.end_offset(), size);
  ASSERT_EQ(::write(in.get(), bytes.data(), size), static_cast<ssize_t>(size));
  std::string buffer(size, '\0');
  for (size_t left = size; left > 0;) {
    const std::span<char> room = log.room(left);
    const ssize_t count = room.empty() ? 0 : ::read(out.get(), room.data(), room.size());
    if (count > 0) {
      log.commit(OutputStream::out, static_cast<size_t>(count), now_ms);
      left -= static_cast<size_t>(count);
      continue;
    }
    log.unmap();
    const ssize_t copied = ::read(out.get(), buffer.data(), left);
    ASSERT_EQ(copied, static_cast<ssize_t>(left));
    log.append(OutputStream::out, {buffer.data(), left}, now_ms);
    left = 0;
  }
}

TEST(SessionLog, keeps_the_newest_bytes_and_counts_the_others) {
  SessionLog log(-1, 65'536);
  for (const size_t size : {1U, 1000U, 64'000U, 30'000U, 65'536U, 200'000U, 7U}) {
    const auto piece = log.append(OutputStream::out, bytes_from(log.end_offset(), size), 1);
    EXPECT_EQ(piece.size, size);
    EXPECT_EQ(piece.offset + size, log.end_offset());
    expect_readable(log);
  }
  EXPECT_EQ(log.end_offset(), 360'544U);
  EXPECT_EQ(log.start_offset(), 360'544U - 65'536U);
  EXPECT_EQ(log.dropped_bytes(), log.start_offset());
}

TEST(SessionLog, is_the_same_whether_bytes_are_appended_or_read_into_its_mapping) {
  SessionLog log(-1, 100'003);
  EXPECT_TRUE(log.room(10).empty()) << "before its first byte a log has no file";
  for (const size_t size : {1U, 1000U, 64'000U, 30'000U, 5'003U, 65'536U, 7U, 50'000U}) {
    log.append(OutputStream::err, bytes_from(log.end_offset(), 3), 1);
    pour(log, size, 1000);
    expect_readable(log);
    uint64_t hint = UINT64_MAX;
    EXPECT_EQ(log.look_up(log.end_offset() - 1, hint).stream, OutputStream::out);
  }
  EXPECT_EQ(log.end_offset(), 215'547U + 8 * 3U);
  EXPECT_EQ(log.dropped_bytes(), log.end_offset() - 100'003U);
}

TEST(SessionLog, knows_the_stream_and_time_of_every_byte) {
  SessionLog log(-1, 1 << 20);
  std::vector<std::pair<uint64_t, SessionLog::Piece>> added;
  for (int i = 0; i < 3000; ++i) {
    const auto stream = i % 3 == 0 ? OutputStream::err : OutputStream::out;
    const auto piece =
        log.append(stream, bytes_from(log.end_offset(), static_cast<size_t>(1 + i % 50)), i * 60);
    added.emplace_back(piece.offset, piece);
  }
  uint64_t hint = 0;
  for (const auto& [offset, piece] : added) {
    for (const uint64_t at : {offset, offset + piece.size - 1}) {
      const auto found = log.look_up(at, hint);
      EXPECT_EQ(found.stream, piece.stream) << at;
      EXPECT_EQ(found.time_ms, piece.time_ms) << at;
      EXPECT_GT(found.size, 0U);
      uint64_t no_hint = UINT64_MAX;
      EXPECT_EQ(log.look_up(at, no_hint).stream, piece.stream) << at;
    }
  }
  expect_readable(log);
}

TEST(SessionLog, single_bytes_in_turn_cost_no_memory_and_lose_the_oldest_only) {
  SessionLog log(-1, uint64_t{64} * 1024);
  constexpr uint64_t kBytes = 100'000;
  for (uint64_t i = 0; i < kBytes; ++i) {
    const auto stream = i % 2 == 0 ? OutputStream::out : OutputStream::err;
    log.append(stream, bytes_from(i, 1), 5);
  }
  EXPECT_EQ(log.end_offset(), kBytes);
  // The index has a record for 32 bytes of log.
  EXPECT_GE(log.end_offset() - log.start_offset(), 2048U);
  EXPECT_LT(log.end_offset() - log.start_offset(), 2048U + 2 * RecordIndex::kBlockRecords + 1);
  uint64_t hint = 0;
  for (uint64_t at = log.start_offset(); at < kBytes; ++at) {
    EXPECT_EQ(log.look_up(at, hint).stream, at % 2 == 0 ? OutputStream::out : OutputStream::err);
  }
  expect_readable(log);
}

// A file system that is full after 256 KiB.
class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(path_.data()), nullptr);
    ASSERT_EQ(::mount("none", path_.c_str(), "tmpfs", 0, "size=256k"), 0);
    folder_ = base::Fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override {
    folder_.reset();
    ::umount2(path_.c_str(), MNT_DETACH);
    ::rmdir(path_.c_str());
  }
  static void expect_newest(const SessionLog& log) {
    EXPECT_EQ(log.end_offset(), 1'000'000U);
    EXPECT_LE(log.capacity(), 256U * 1024);
    EXPECT_GE(log.end_offset() - log.start_offset(), 200'000U);
    EXPECT_EQ(log.dropped_bytes(), log.start_offset());
    expect_readable(log);
  }

  std::string path_ = "/tmp/session-log-XXXXXX";
  base::Fd folder_;
};

TEST_F(SmallDisk, the_log_is_smaller_and_the_newest_stay) {
  SessionLog log(folder_.get(), 16 << 20);
  for (int i = 0; i < 100; ++i) {
    log.append(OutputStream::out, bytes_from(log.end_offset(), 10'000), i * 1000);
  }
  expect_newest(log);
  // With no room at all the bytes are left out, counted, and have no offset.
  SessionLog late(folder_.get(), 16 << 20);
  EXPECT_EQ(late.append(OutputStream::out, "lost", 1).size, 0U);
  EXPECT_EQ(late.end_offset(), 0U);
  EXPECT_EQ(late.dropped_bytes(), 4U);
}

TEST_F(SmallDisk, a_mapping_without_pages_behind_it_fails_no_worse) {
  SessionLog log(folder_.get(), 16 << 20);
  log.append(OutputStream::out, bytes_from(0, 10'000), 1);
  for (int i = 1; i < 100; ++i) {
    pour(log, 10'000, i * 1000);
  }
  expect_newest(log);
}

}  // namespace
}  // namespace agent
