#include "agent/output_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"

namespace agent {
namespace {

// The bytes shown for a share.
std::string shown(const OutputStore& store, uint64_t share) {
  std::string out;
  std::vector<char> buffer(100'000);
  for (OutputStore::Range range : store.ranges(share)) {
    while (range.size > 0) {
      const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), range.size));
      const auto size = store.read(range.begin, std::span(buffer).first(wanted));
      EXPECT_TRUE(size.has_value());
      out.append(buffer.data(), *size);
      range.begin += *size;
      range.size -= *size;
    }
  }
  return out;
}

constexpr uint64_t kRecordBytes = 1024;
// Records that count up, so that a piece from another place shows.
std::string records(uint64_t from, uint64_t count) {
  std::string out;
  for (uint64_t i = from; i < from + count; ++i) {
    std::string record = base::cat(i);
    record.resize(kRecordBytes, ';');
    out += record;
  }
  return out;
}

TEST(OutputStore, small_output_stays_in_memory) {
  OutputStore store(-1);
  store.add("abc");
  store.add("def");
  EXPECT_FALSE(store.spooled());
  EXPECT_EQ(shown(store, kOutputBytesMax), "abcdef");
  EXPECT_EQ(shown(store, 4), "adef");
}

TEST(OutputStore, what_exceeds_memory_is_spooled_whole) {
  OutputStore store(-1);
  const std::string all = records(0, 800);
  for (size_t at = 0; at < all.size(); at += 30'001) {
    store.add(std::string_view(all).substr(at, 30'001));
  }
  EXPECT_TRUE(store.spooled());
  EXPECT_EQ(store.total(), all.size());
  EXPECT_TRUE(shown(store, kOutputBytesMax) == all);
}

TEST(OutputStore, of_more_than_the_limit_begin_and_end_are_kept) {
  OutputStore store(-1);
  constexpr uint64_t kRecords = 72'000;  // 72 MB: the ring is overwritten more than once
  constexpr uint64_t kAtOnce = 80;
  for (uint64_t at = 0; at < kRecords; at += kAtOnce) {
    store.add(records(at, kAtOnce));
  }
  EXPECT_EQ(store.total(), kRecords * kRecordBytes);
  EXPECT_EQ(store.kept(), kOutputBytesMax);
  const uint64_t share = kOutputBytesMax - 4096;
  const std::string text = shown(store, share);
  const uint64_t head = share / 4 / kRecordBytes;
  const uint64_t tail = (share - share / 4) / kRecordBytes;
  EXPECT_TRUE(text == records(0, head) + records(kRecords - tail, tail));
}

TEST(OutputStore, a_full_disk_ends_the_keeping_and_counts_what_came_later) {
  std::string folder = "/tmp/output-store-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0) {
    ::rmdir(folder.c_str());
    GTEST_SKIP() << "no right to mount";
  }
  {
    const base::Fd place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    OutputStore store(place.get());
    const std::string all = records(0, 3200);
    for (size_t at = 0; at < all.size(); at += 50'000) {
      store.add(std::string_view(all).substr(at, 50'000));
    }
    EXPECT_EQ(store.total(), all.size());
    EXPECT_LE(store.kept(), 1024U * 1024);
    EXPECT_GT(store.kept(), 900'000U);
    EXPECT_TRUE(shown(store, kOutputBytesMax) == all.substr(0, store.kept()));
  }
  ::umount(folder.c_str());
  ::rmdir(folder.c_str());
}

TEST(OutputStore, the_smaller_stream_is_whole) {
  EXPECT_EQ(share_output(5, 7).out, 5U);
  EXPECT_EQ(share_output(kOutputBytesMax, 100).err, 100U);
  EXPECT_EQ(share_output(kOutputBytesMax, 100).out, kOutputBytesMax - 100);
  EXPECT_EQ(share_output(10, kOutputBytesMax).out, 10U);
  EXPECT_EQ(share_output(kOutputBytesMax, kOutputBytesMax).out, kOutputBytesMax / 2);
  EXPECT_EQ(share_output(kOutputBytesMax, kOutputBytesMax).err, kOutputBytesMax / 2);
}

}  // namespace
}  // namespace agent
