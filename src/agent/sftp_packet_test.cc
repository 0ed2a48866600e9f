#include "agent/sftp_packet.h"

#include <gtest/gtest.h>

namespace agent::sftp {
namespace {

TEST(SftpPacket, gives_back_what_was_written) {
  std::string out;
  PacketWriter writer(out);
  Attributes attributes{
      .flags = Attributes::kSize | Attributes::kOwner | Attributes::kMode | Attributes::kTimes,
      .size = 1ULL << 40U,
      .uid = 1,
      .gid = 2,
      .mode = 0100644,
      .accessed_at = 3,
      .modified_at = 4};
  writer.begin(Type::open).number32(7).text("a/b").number64(9).attributes(attributes).finish();
  EXPECT_EQ(packet_length(out), out.size() - kLengthBytes);
  PacketReader reader(std::string_view(out).substr(kLengthBytes));
  EXPECT_EQ(reader.number8(), static_cast<uint8_t>(Type::open));
  EXPECT_EQ(reader.number32(), 7U);
  EXPECT_EQ(reader.path(), "a/b");
  EXPECT_EQ(reader.number64(), 9U);
  const Attributes read = reader.attributes();
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(read.size, attributes.size);
  EXPECT_EQ(read.gid, 2U);
  EXPECT_EQ(read.mode, 0100644U);
  EXPECT_EQ(read.modified_at, 4U);
  reader.number8();
  EXPECT_FALSE(reader.ok()) << "there is nothing behind its end";
}

TEST(SftpPacket, says_so_when_a_length_is_more_than_there_is) {
  std::string out;
  PacketWriter(out).number32(100);
  out += "short";
  PacketReader reader(out);
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.number32(), 0U) << "and stays so";
}

TEST(SftpPacket, takes_no_path_with_nul) {
  std::string out;
  PacketWriter(out).text(std::string_view("a\0b", 3));
  PacketReader reader(out);
  reader.path();
  EXPECT_FALSE(reader.ok());
}

TEST(SftpPacket, ends_with_the_packet_however_many_extended_pairs_are_claimed) {
  std::string out;
  PacketWriter(out).number32(Attributes::kExtended).number32(UINT32_MAX).text("a").text("b");
  PacketReader reader(out);
  reader.attributes();
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace agent::sftp
