#include "oidc/http.h"

#include <curl/curl.h>

#include <memory>

#include "oidc/url.h"

namespace oidc {
namespace {

constexpr long kConnectMillisecondsMax = 5'000;

struct FreeEasy {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, FreeEasy>;
struct FreeList {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeList>;

size_t on_body(char* bytes, size_t size, size_t count, void* user) {
  auto& body = *static_cast<std::string*>(user);
  if (body.size() + size * count > kAnswerBytesMax) {
    return CURL_WRITEFUNC_ERROR;
  }
  body.append(bytes, size * count);
  return size * count;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(user)->load() ? 1 : 0;
}

void set_bounds(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMillisecondsMax);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, kAnswerMillisecondsMax);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandbox-gateway/" SANDBOX_VERSION);
}

// Basic authentication as RFC 6749 2.3.1 wants it: both parts form-encoded first.
void set_access(CURL* easy, const HttpRequest& request) {
  if (!request.username.empty()) {
    const base::Secret password(base::percent_encode(request.password.reveal()));  // to the issuer
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_USERNAME, base::percent_encode(request.username).c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, password.reveal().c_str());
  } else if (!request.bearer.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, request.bearer.reveal().c_str());  // likewise
  }
}

}  // namespace

CurlHttp::CurlHttp(std::string ca_file) : ca_file_(std::move(ca_file)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
}

base::Result<HttpAnswer> CurlHttp::send(const HttpRequest& request) {
  const Easy easy(curl_easy_init());
  char detail[CURL_ERROR_SIZE] = "";
  HttpAnswer answer;
  const List headers(curl_slist_append(nullptr, "Accept: application/json"));
  set_bounds(easy.get());
  set_access(easy.get(), request);
  curl_easy_setopt(easy.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(easy.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy.get(), CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy.get(), CURLOPT_XFERINFODATA, &stopping_);
  if (!request.form.empty()) {
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.form.size()));
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, request.form.data());
  }
  if (!ca_file_.empty()) {
    curl_easy_setopt(easy.get(), CURLOPT_CAINFO, ca_file_.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_CAPATH, nullptr);
  }
  if (!is_https(request.url)) {  // this machine's: no proxy elsewhere reaches it
    curl_easy_setopt(easy.get(), CURLOPT_NOPROXY, "*");
  }
  if (const CURLcode code = curl_easy_perform(easy.get()); code != CURLE_OK) {
    return base::fail(base::ErrorCode::unavailable, "ask ", request.url, ": ",
                      detail[0] != '\0' ? detail : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace oidc
