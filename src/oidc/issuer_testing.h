// An issuer of tests: keys that really sign, and answers by address instead of a network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "oidc/http.h"
#include "oidc/key_set.h"

namespace oidc {

// A private key and how its public half is published.
class SigningKey {
 public:
  enum class Kind { rsa, weak_rsa, p256, ed25519 };
  SigningKey(Kind kind, std::string id);

  // `more`: members behind its own, as in R"(,"use":"enc")".
  [[nodiscard]] std::string jwk(std::string_view more = "") const;
  // The token of these texts, signed as `algorithm` says, whatever the head does.
  [[nodiscard]] std::string sign(std::string_view head, std::string_view claims,
                                 Algorithm algorithm) const;
  // The same with the head that goes with it.
  [[nodiscard]] std::string token(std::string_view claims) const;

 private:
  [[nodiscard]] std::string number(const char* name) const;

  Kind kind_;
  std::string id_;
  std::shared_ptr<EVP_PKEY> key_;
};

std::string key_set_of(std::initializer_list<std::string> keys);

// Answers by address; unavailable where it has none. Any thread.
class FakeHttp final : public Http {
 public:
  using Answer = std::function<HttpAnswer(const HttpRequest& request)>;
  base::Result<HttpAnswer> send(const HttpRequest& request) override;
  void answer(const std::string& url, std::string body, int status = 200);
  void answer_by(const std::string& url, Answer answer);
  void forget(const std::string& url);
  // How often it was asked for that.
  [[nodiscard]] int asked(const std::string& url);

 private:
  std::mutex mutex_;  // guards both
  std::map<std::string, Answer> answers_;
  std::map<std::string, int> asked_;
};

}  // namespace oidc
