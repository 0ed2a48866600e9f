#include "agent/upload_digest.h"

#include <gtest/gtest.h>

namespace agent {
namespace {

TEST(UploadDigest, is_that_of_all_pieces_whoever_hashed_them) {
  for (const size_t large : {size_t{0}, size_t{127} * 1024, size_t{128} * 1024, size_t{1} << 20}) {
    UploadDigest digest;
    Sha256 plain;
    for (int round = 0; round < 20; ++round) {
      const std::string piece(round % 3 == 2 ? 100 : large, static_cast<char>('a' + round));
      digest.begin(piece);
      plain.add(piece);
      digest.wait();
    }
    EXPECT_EQ(digest.finish(), plain.finish()) << large;
  }
}

TEST(UploadDigest, may_be_given_up_while_a_piece_is_hashed) {
  const std::string piece(size_t{4} << 20, 'x');
  UploadDigest digest;
  digest.begin(piece);
}

}  // namespace
}  // namespace agent
