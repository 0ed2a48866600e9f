#include "agent/upload_digest.h"

#include <gtest/gtest.h>

#include <vector>

namespace agent {
namespace {

TEST(UploadDigest, is_that_of_all_pieces_whoever_hashed_them) {
  for (const size_t large : {size_t{0}, size_t{10} * 1024, size_t{128} * 1024, size_t{1} << 20}) {
    std::vector<std::string> pieces(UploadDigest::kQueueMax + 1);
    UploadDigest digest;
    Sha256 plain;
    for (size_t round = 0; round < 40; ++round) {
      // No longer than promised: what is written over too early changes the digest.
      std::string& piece = pieces[round % pieces.size()];
      piece.assign(round % 3 == 2 ? 100 : large, static_cast<char>('a' + round));
      digest.add(piece);
      plain.add(piece);
    }
    EXPECT_EQ(digest.finish(), plain.finish()) << large;
  }
}

TEST(UploadDigest, may_be_given_up_while_pieces_are_hashed) {
  const std::string piece(size_t{4} << 20, 'x');
  UploadDigest digest;
  digest.add(piece);
  digest.add(piece);
}

}  // namespace
}  // namespace agent
