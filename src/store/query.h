// Query: a SELECT's text and values as they grow with a filter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/database.h"

namespace store {

class Query {
 public:
  explicit Query(std::string text) : text_(std::move(text)) {}
  void add(std::string_view text) { text_ += text; }
  void add_value(int64_t value) { add_placeholder(value); }
  void add_value(std::string_view value) { add_placeholder(std::string(value)); }
  // Puts texts without values around what is there.
  void wrap(std::string_view before, std::string_view after) {
    text_ = base::cat(before, text_, after);
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  void bind_to(Statement& statement) const {
    for (const auto& value : values_) {
      std::visit([&](const auto& one) { statement.bind(one); }, value);
    }
  }

 private:
  void add_placeholder(std::variant<int64_t, std::string> value) {
    values_.push_back(std::move(value));
    text_ += base::cat("$", values_.size());
  }
  std::string text_;
  std::vector<std::variant<int64_t, std::string>> values_;
};

// `text` as the pattern of "contains", lower case, for LIKE ... ESCAPE '\\'.
std::string contains_pattern(std::string_view text);

}  // namespace store
