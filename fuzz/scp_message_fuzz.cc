// Lines of an scp peer: a name that is taken is a plain one, and the line written of what was read
// is read as the same. The same bytes as a pattern end in time that does not explode.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/path_pattern.h"
#include "agent/scp_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using agent::scp::Message;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const auto message = agent::scp::parse_message(line);
  if (message && message->kind == Message::Kind::file) {
    const std::string again = agent::scp::file_line(message->mode, message->size, message->name);
    const auto read =
        agent::scp::parse_message(std::string_view(again).substr(0, again.size() - 1));
    if (message->name.contains('/') || message->name == ".." || !read ||
        read->name != message->name || read->size != message->size) {
      std::abort();
    }
  }
  const size_t half = size / 2;
  agent::fits_pattern(bytes.substr(0, half), bytes.substr(half));
  return 0;
}
