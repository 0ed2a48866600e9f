// A value that must not reach a log, an error text or a response: it does not convert to text,
// and its bytes are cleared when it goes.
#pragma once

#include <string.h>

#include <string>
#include <utility>

namespace base {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  Secret(Secret&& other) noexcept : value_(std::move(other.value_)) {}
  Secret& operator=(Secret&& other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~Secret() { ::explicit_bzero(value_.data(), value_.size()); }

  // The only way to the bytes; a reader of the code should ask why at each call.
  [[nodiscard]] const std::string& reveal() const { return value_; }
  [[nodiscard]] bool empty() const { return value_.empty(); }

 private:
  std::string value_;
};

}  // namespace base
