// Lists, maps and ciphertexts as the texts that the store's columns hold (no database type of
// lists, JSON or bytes is the same in SQLite and PostgreSQL).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace store {

using base::Result;

std::string list_text(const std::vector<std::string>& list);
Result<std::vector<std::string>> parse_list(std::string_view text);
std::string map_text(const std::map<std::string, std::string>& map);
Result<std::map<std::string, std::string>> parse_map(std::string_view text);
std::string seal_text(std::string_view bytes);
Result<std::string> unseal_text(std::string_view text);

}  // namespace store
