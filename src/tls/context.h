// Context: a certificate with its key, ready for TLS. Made whole or not at all; shared
// by the connections that were accepted with it, so that a newer one disturbs none of them.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/secret.h"

using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace tls {

// The key pair of a sandbox, to both who reach its agent and the agent itself (tls/pinned.h).
struct Pin {
  std::string sandbox;
  base::Secret private_key;  // ed25519's, 32 bytes
};

// PEM: the certificate and those between it and its root, and the key.
struct Files {
  std::string certificate;
  std::string key;
};

struct FreeSsl {
  void operator()(SSL* ssl) const noexcept;
};
using SslPointer = std::unique_ptr<SSL, FreeSsl>;

class Context {
 public:
  // TLS 1.2 and 1.3, forward secrecy and authenticated ciphers only, ALPN http/1.1. The error
  // names the file and what is wrong with it; never a part of the key.
  static base::Result<std::shared_ptr<Context>> load(const Files& files);
  // Either end of a connection to an agent: both show and take this pin only. TLS 1.3.
  static base::Result<std::shared_ptr<Context>> pinned(const Pin& pin);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  // The server's end of a connection on this socket (not owned).
  [[nodiscard]] SslPointer accept(int socket) const;
  // The client's end; of pinned() only.
  [[nodiscard]] SslPointer connect(int socket) const;
  // Of the certificate.
  [[nodiscard]] bool is_valid_at(base::WallTime now) const;
  [[nodiscard]] const std::string& expires() const { return expires_; }

 private:
  explicit Context(SSL_CTX* context) : context_(context) {}

  SSL_CTX* context_;
  base::WallTime begins_at_;
  base::WallTime ends_at_;
  std::string expires_;
};

// An idle connection keeps no buffers; a record that the kernel does not take now may be offered
// again from another place.
void set_modes(SSL_CTX* context);

// The first error that OpenSSL noted on this thread, as a sentence; forgets all of them.
std::string take_ssl_error();

}  // namespace tls
