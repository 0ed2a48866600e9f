// The audit log's chain as an operator checks it on the store itself, without a running gateway.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace service {

// What `sandbox-gateway audit WORD` prints: for `verify` a sentence, for `head` "ID:HASH". `noted`:
// a head that was noted earlier, or "". Errors: conflict names the first broken row, invalid_field
// an argument that is none.
base::Result<std::string> check_audit(store::Store& store, std::string_view word,
                                      std::string_view noted);

}  // namespace service
