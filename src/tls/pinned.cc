#include "tls/pinned.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <vector>

#include "base/sys.h"
#include "net/listener.h"
#include "tls/handshake.h"
#include "tls/tunnel.h"

namespace tls {
namespace {

using base::ErrorCode;
using base::Result;

constexpr size_t kKeyBytes = 32;
constexpr size_t kNameBytesMax = 64;  // of a common name (X.520)
// One of the largest records and as much again, for each connection.
constexpr size_t kScratchBytes = size_t{32} * 1024;

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

std::unexpected<base::Error> failed(std::string_view step) {
  return base::fail(ErrorCode::internal, "TLS of an agent: ", step, ": ", take_ssl_error());
}

// The key is what counts: it has no time at which it ends but the sandbox's.
Certificate make_certificate(EVP_PKEY* key, const std::string& name) {
  Certificate certificate(::X509_new(), ::X509_free);
  X509_NAME* const subject = certificate ? ::X509_get_subject_name(certificate.get()) : nullptr;
  const bool is_made =
      subject != nullptr && ::X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
      ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1) == 1 &&
      ::ASN1_TIME_set_string(::X509_getm_notBefore(certificate.get()), "19700101000000Z") == 1 &&
      ::ASN1_TIME_set_string(::X509_getm_notAfter(certificate.get()), "99991231235959Z") == 1 &&
      ::X509_set_pubkey(certificate.get(), key) == 1 &&
      ::X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(name.data()),
                                   static_cast<int>(name.size()), -1, 0) == 1 &&
      ::X509_set_issuer_name(certificate.get(), subject) == 1 &&
      ::X509_sign(certificate.get(), key, nullptr) > 0;
  return is_made ? std::move(certificate) : Certificate(nullptr, ::X509_free);
}

// In the place of all that OpenSSL checks of a chain: the other end shows our own key and name.
// That it has the private half, the handshake proves.
int is_pinned(X509_STORE_CTX* store, void* argument) {
  const auto* const context = static_cast<const SSL_CTX*>(argument);
  X509* const shown = ::X509_STORE_CTX_get0_cert(store);
  EVP_PKEY* const key = ::SSL_CTX_get0_privatekey(context);
  const X509* const own = ::SSL_CTX_get0_certificate(context);
  const bool is_right =
      shown != nullptr && ::EVP_PKEY_eq(::X509_get0_pubkey(shown), key) == 1 &&
      ::X509_NAME_cmp(::X509_get_subject_name(shown), ::X509_get_subject_name(own)) == 0 &&
      ::X509_verify(shown, key) == 1;
  ::ERR_clear_error();
  ::X509_STORE_CTX_set_error(store, is_right ? X509_V_OK : X509_V_ERR_CERT_REJECTED);
  return is_right ? 1 : 0;
}

// What lives as long as the connection.
net::Task<void> carry(std::unique_ptr<net::Stream> outer, SslPointer ssl, base::Fd plain) {
  net::Stream inner(outer->loop(), std::move(plain));
  std::vector<char> scratch(kScratchBytes);
  Tunnel tunnel(*outer, ssl.get(), inner, scratch);
  co_await tunnel.run();
}

}  // namespace

Result<std::shared_ptr<Context>> Context::pinned(const Pin& pin) {
  if (pin.sandbox.empty() || pin.sandbox.size() > kNameBytesMax ||
      pin.private_key.reveal().size() != kKeyBytes) {
    return base::fail(ErrorCode::invalid_field, "an agent's pin is a sandbox's id and its key of ",
                      kKeyBytes, " bytes");
  }
  ::ERR_clear_error();
  SSL_CTX* const raw = ::SSL_CTX_new(::TLS_method());
  if (raw == nullptr) {
    return failed("context");
  }
  std::shared_ptr<Context> context(new Context(raw));
  const Key key(
      ::EVP_PKEY_new_raw_private_key(
          EVP_PKEY_ED25519, nullptr,
          reinterpret_cast<const unsigned char*>(pin.private_key.reveal().data()), kKeyBytes),
      ::EVP_PKEY_free);
  const Certificate certificate =
      key ? make_certificate(key.get(), pin.sandbox) : Certificate(nullptr, ::X509_free);
  if (!certificate || ::SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 ||
      ::SSL_CTX_set1_sigalgs_list(raw, "ed25519") != 1 ||
      ::SSL_CTX_use_certificate(raw, certificate.get()) != 1 ||
      ::SSL_CTX_use_PrivateKey(raw, key.get()) != 1) {
    return failed("certificate");
  }
  ::SSL_CTX_set_num_tickets(raw, 0);
  ::SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  ::SSL_CTX_set_cert_verify_callback(raw, is_pinned, raw);
  set_modes(raw);
  return context;
}

net::Task<Result<base::Fd>> connect_pinned(net::EventLoop& loop, net::TaskGroup& tunnels,
                                           std::string address, std::shared_ptr<Context> context,
                                           base::Milliseconds patience) {
  const auto deadline = net::Deadline::after(patience);
  CO_ASSIGN_OR_RETURN(base::Fd connected, co_await net::connect_tcp(loop, address, deadline));
  auto stream = std::make_unique<net::Stream>(loop, std::move(connected));
  SslPointer ssl = context->connect(stream->fd());
  if (!ssl) {
    co_return failed("connection");
  }
  CO_RETURN_IF_ERROR(base::with_context(co_await shake_hands(*stream, ssl.get(), deadline),
                                        base::cat("agent at ", address)));
  CO_ASSIGN_OR_RETURN(auto pair, base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK));
  tunnels.spawn(carry(std::move(stream), std::move(ssl), std::move(pair.first)));
  co_return std::move(pair.second);
}

}  // namespace tls
