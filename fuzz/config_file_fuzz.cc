// A configuration file: each line becomes a key with its value or a problem, and every value that
// an option accepts is accepted again in the form that is kept.
#include <cstdint>
#include <cstdlib>

#include "config/file.h"
#include "config/gateway_options.h"
#include "config/node_options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> problems;
  const auto lines =
      config::parse_file({reinterpret_cast<const char*>(data), size}, "fuzz", problems);
  for (const config::Program* program : {&config::gateway_program(), &config::node_program()}) {
    for (const config::Line& line : lines) {
      for (const config::Option& option : program->options) {
        const auto value = config::parse_value(option, line.value);
        if (!value) {
          continue;
        }
        const auto again = config::parse_value(option, *value);
        if (!again || *again != *value) {
          std::abort();
        }
      }
    }
  }
  return 0;
}
