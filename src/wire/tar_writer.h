// Writes tar archives without I/O: the head of each member, to be followed by its data, padding()
// zeros, and at last kEndBytes zeros. ustar where a member fits, PAX records for what does not:
// long names and link targets as the bytes they are, large numbers, fractions of a second,
// extended attributes (SCHILY.xattr.*), sparse files (GNU.sparse 1.0). GNU tar, bsdtar and Python
// read it. Pure.
#pragma once

#include <string>

#include "wire/tar.h"

namespace wire::tar {

// Appends all that stands before the member's data; of a sparse file that includes its map.
void append_head(std::string& out, const Entry& entry);
// Bytes of data that follow the head: the file's size, or the sum of a sparse file's parts.
uint64_t data_size(const Entry& entry);

}  // namespace wire::tar
