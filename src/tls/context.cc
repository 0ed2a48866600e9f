#include "tls/context.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <time.h>

#include <array>

#include "base/text.h"

namespace tls {
namespace {

using base::ErrorCode;
using base::Result;

// TLS 1.3 has good ones only. Of 1.2: a key of its own for each connection, authenticated.
constexpr const char* kCiphers12 = "ECDHE+AESGCM:ECDHE+CHACHA20";

// One protocol as ALPN writes it. A client that knows ALPN and not this one (HTTP/2 only) is told
// so by an alert instead of bytes it cannot read.
constexpr std::array<unsigned char, 9> kHttp11{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned offered_size, void* /*argument*/) {
  const int chosen = ::SSL_select_next_proto(const_cast<unsigned char**>(out), out_size,
                                             kHttp11.data(), kHttp11.size(), offered, offered_size);
  return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// A key under a password cannot be used by a daemon; without this OpenSSL asks the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*argument*/) { return -1; }

std::unexpected<base::Error> foreign_key(const Files& files) {
  ::ERR_clear_error();
  return base::fail(ErrorCode::invalid_field, "the key ", files.key,
                    " does not belong to the certificate ", files.certificate);
}

std::unexpected<base::Error> file_error(std::string_view what, const std::string& file) {
  return base::fail(ErrorCode::invalid_field, what, " ", file, ": ", take_ssl_error());
}

base::WallTime time_of(const ASN1_TIME* time) {
  tm parts{};
  ::ASN1_TIME_to_tm(time, &parts);
  constexpr int64_t kMsPerSecond = 1000;
  return base::from_ms(int64_t{::timegm(&parts)} * kMsPerSecond);
}

}  // namespace

std::string take_ssl_error() {
  const unsigned long number = ::ERR_get_error();
  std::string text = "unknown error";
  if (ERR_SYSTEM_ERROR(number)) {
    text = base::errno_error(ERR_GET_REASON(number), "read").message;
  } else if (const char* reason = ::ERR_reason_error_string(number); reason != nullptr) {
    text = reason;
  }
  ::ERR_clear_error();
  return text;
}

void set_modes(SSL_CTX* context) {
  ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

void FreeSsl::operator()(SSL* ssl) const noexcept { ::SSL_free(ssl); }

Context::~Context() { ::SSL_CTX_free(context_); }

Result<std::shared_ptr<Context>> Context::load(const Files& files) {
  ::ERR_clear_error();
  SSL_CTX* raw = ::SSL_CTX_new(::TLS_server_method());
  if (raw == nullptr) {
    return base::fail(ErrorCode::internal, "TLS: ", take_ssl_error());
  }
  std::shared_ptr<Context> context(new Context(raw));
  ::SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  ::SSL_CTX_set_cipher_list(raw, kCiphers12);
  ::SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  set_modes(raw);
  ::SSL_CTX_set_alpn_select_cb(raw, choose_protocol, nullptr);
  ::SSL_CTX_set_default_passwd_cb(raw, no_password);
  if (::SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1) {
    return file_error("certificate", files.certificate);
  }
  if (::SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    if (ERR_GET_REASON(::ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH) {
      return foreign_key(files);
    }
    return file_error("key", files.key);
  }
  if (::SSL_CTX_check_private_key(raw) != 1) {
    return foreign_key(files);
  }
  const X509* certificate = ::SSL_CTX_get0_certificate(raw);
  context->begins_at_ = time_of(::X509_get0_notBefore(certificate));
  context->ends_at_ = time_of(::X509_get0_notAfter(certificate));
  context->expires_ = base::rfc3339(context->ends_at_);
  return context;
}

SslPointer Context::accept(int socket) const {
  SslPointer ssl(::SSL_new(context_));
  if (ssl) {
    ::SSL_set_fd(ssl.get(), socket);
    ::SSL_set_accept_state(ssl.get());
  }
  return ssl;
}

SslPointer Context::connect(int socket) const {
  SslPointer ssl(::SSL_new(context_));
  if (ssl) {
    ::SSL_set_fd(ssl.get(), socket);
    ::SSL_set_connect_state(ssl.get());
  }
  return ssl;
}

bool Context::is_valid_at(base::WallTime now) const { return begins_at_ <= now && now < ends_at_; }

}  // namespace tls
