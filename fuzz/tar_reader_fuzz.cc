// Tar archives. Besides not crashing: members and data must not depend on how the bytes arrive,
// parts lie inside their file, and no step stands still.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.h"
#include "wire/tar_reader.h"

namespace {

using wire::tar::Reader;

std::string outcome(std::string_view bytes, size_t piece) {
  Reader reader;
  std::string out;
  uint64_t end = 0;
  while (!bytes.empty()) {
    std::string_view input = bytes.substr(0, std::min(piece, bytes.size()));
    bytes.remove_prefix(input.size());
    for (;;) {
      const auto step = reader.next(input);
      if (!step) {
        return out + "failed";
      }
      input.remove_prefix(step->consumed);
      const auto& entry = reader.entry();
      if (step->found == Reader::Found::more_input) {
        if (!input.empty()) {
          std::abort();  // it asks for more and has not taken what there is
        }
        break;
      }
      if (step->found == Reader::Found::entry) {
        out += base::cat("\n", entry.path, "|", entry.target, "|", entry.size, "|",
                         entry.parts.size(), "|", entry.modified.seconds, "\n");
        end = 0;
      }
      if (step->found == Reader::Found::data) {
        if (step->data.empty() || step->offset < end ||
            step->offset + step->data.size() > entry.size) {
          std::abort();
        }
        end = step->offset + step->data.size();
        out += step->data;
      }
    }
  }
  return out + (reader.end_of_input() ? "whole" : "cut");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = outcome(bytes, std::max<size_t>(size, 1));
  if (outcome(bytes, 1) != whole || outcome(bytes, 500) != whole) {
    std::abort();
  }
  return 0;
}
