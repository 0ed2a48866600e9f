// How an issuer is asked: one request, one answer, bounded in size and time. Blocking; called on a
// pool's thread.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

namespace oidc {

// A discovery document has 5 KiB, a key set with certificates 20.
inline constexpr size_t kAnswerBytesMax = 512UL * 1024;
inline constexpr long kAnswerMillisecondsMax = 10'000;

struct HttpRequest {
  std::string url;
  std::string form;      // sent by POST; empty: a GET
  std::string username;  // of basic authentication
  base::Secret password;
  base::Secret bearer;
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

class Http {
 public:
  Http() = default;
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;
  virtual ~Http() = default;
  // unavailable: no answer, one that is too long or too late, or one that cannot be trusted.
  virtual base::Result<HttpAnswer> send(const HttpRequest& request) = 0;
};

// By libcurl: certificates, proxies and names as the system has them. Follows no redirect and
// speaks plain HTTP only where the address says so. Any thread.
class CurlHttp final : public Http {
 public:
  // `ca_file`: authorities in PEM beside nothing else; empty: the system's.
  explicit CurlHttp(std::string ca_file);
  base::Result<HttpAnswer> send(const HttpRequest& request) override;
  // What is asked now ends soon, and nothing is asked any more.
  void stop() { stopping_ = true; }

 private:
  std::string ca_file_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace oidc
