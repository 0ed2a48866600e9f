// Lines of an audit log, as an export that lies somewhere may have them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "wire/audit_chain.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  wire::AuditVerifier verifier(model::AuditHead{.id = 2, .hash = std::string(64, '0')});
  for (const std::string_view line : base::split(text, '\n')) {
    if (!verifier.add(line)) {
      break;
    }
  }
  (void)verifier.finish();
  if (const auto head = wire::parse_audit_head(text)) {
    // What was read is written the same.
    if (wire::audit_head_text(*head) != text && text[0] != '0' && text[0] != '-') {
      __builtin_trap();
    }
  }
  return 0;
}
