#include "cli/connection.h"

#include <curl/curl.h>

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr long kConnectMillisecondsMax = 10'000;

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Interrupt*>(user)->signal() != 0 ? 1 : 0;
}

}  // namespace

struct Connection::Handle {
  CURL* easy = curl_easy_init();
  char detail[CURL_ERROR_SIZE] = "";
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { curl_easy_cleanup(easy); }
};

Connection::Connection(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}

Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::open(const Endpoint& endpoint,
                                                     Interrupt& interrupt) {
  RETURN_IF_ERROR(interrupt.check());
  auto handle = std::make_unique<Handle>();
  CURL* easy = handle->easy;
  curl_easy_setopt(easy, CURLOPT_URL, endpoint.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // Without this TLS may agree on HTTP/2, which we do not speak.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMillisecondsMax);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, handle->detail);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &interrupt);
  if (is_loopback_url(endpoint.url)) {
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  }
  apply_trust(easy, endpoint.trust);
  const CURLcode code = curl_easy_perform(easy);
  RETURN_IF_ERROR(interrupt.check());
  if (code != CURLE_OK) {
    base::Error error = transport_error(code, handle->detail, endpoint.url);
    if (error.code == ErrorCode::connection_closed) {
      error.code = ErrorCode::unavailable;  // nothing was sent yet
    }
    return std::unexpected(std::move(error));
  }
  curl_socket_t socket = CURL_SOCKET_BAD;
  curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket);
  auto connection = std::unique_ptr<Connection>(new Connection(std::move(handle)));
  connection->fd_ = socket;
  return connection;
}

Result<size_t> Connection::send(std::string_view bytes) {
  size_t sent = 0;
  const CURLcode code = curl_easy_send(handle_->easy, bytes.data(), bytes.size(), &sent);
  if (code != CURLE_OK && code != CURLE_AGAIN) {
    return fail(ErrorCode::connection_closed, "send to the gateway: ", curl_easy_strerror(code));
  }
  return code == CURLE_OK ? sent : 0;
}

Result<size_t> Connection::receive(std::span<char> buffer) {
  size_t received = 0;
  const CURLcode code = curl_easy_recv(handle_->easy, buffer.data(), buffer.size(), &received);
  if (code == CURLE_AGAIN) {
    return 0;
  }
  if (code != CURLE_OK) {
    return fail(ErrorCode::connection_closed,
                "receive from the gateway: ", curl_easy_strerror(code));
  }
  if (received == 0) {
    return fail(ErrorCode::connection_closed, "the gateway closed the connection");
  }
  return received;
}

}  // namespace cli
