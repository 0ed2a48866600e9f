// SHA-256 as images name content: "sha256:" and 64 hexadecimal digits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace image {

class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  // "sha256:..."; once, at the end.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_of(std::string_view bytes);
// Whether `text` is "sha256:" and 64 lower-case hexadecimal digits.
bool is_sha256(std::string_view text);

}  // namespace image
