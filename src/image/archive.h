// Layers and root file systems as tar archives: plain, gzip (of several members too) or zstd; the
// bytes decide, whatever the media type says. Both digests are computed of all bytes in the one
// pass that unpacks. Runs confined; a damaged archive is image_invalid, a wrong digest
// image_digest_mismatch (found at the end: the caller drops the folder).
#pragma once

#include <string>

#include "image/layer_writer.h"

namespace image {

struct ArchiveDigests {
  std::string blob;     // of the bytes as stored
  std::string content;  // of the tar: the diff_id
};

// Reads `fd` from its position to its end.
Result<ArchiveDigests> unpack_archive(int fd, LayerLimits& budget, LayerWriter& writer);

// Lets libarchive take names as the bytes they are. Call once at the start of a program.
void use_byte_names();

}  // namespace image
