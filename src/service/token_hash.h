// What is kept of a secret.
#pragma once

#include <string>
#include <string_view>

namespace service {

// SHA-256 of a token in hex: what the store keeps.
std::string token_hash(std::string_view token);

}  // namespace service
