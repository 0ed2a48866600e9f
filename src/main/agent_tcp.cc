#include "main/agent_tcp.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "net/listener.h"
#include "tls/acceptor.h"
#include "tls/pinned.h"
#include "wire/json.h"

namespace {

using base::Result;

constexpr int kBacklog = 256;
// More come from nobody but a gateway that is starved of answers, or from who has no key.
constexpr size_t kHandshakesMax = 64;

struct TcpConfig {
  std::string address;
  tls::Pin pin;
};

Result<TcpConfig> parse_tcp(const wire::json::Object& object) {
  wire::json::Reader reader(object, "tcp");
  TcpConfig tcp;
  ASSIGN_OR_RETURN(tcp.address, reader.required<std::string>("address"));
  ASSIGN_OR_RETURN(tcp.pin.sandbox, reader.required<std::string>("sandbox"));
  ASSIGN_OR_RETURN(auto text, reader.required<std::string>("private_key"));
  const base::Secret encoded(std::move(text));
  auto key = base::decode_base64(encoded.reveal());
  if (!key) {
    return base::fail_field("tcp.private_key", "the private key must be base64");
  }
  tcp.pin.private_key = base::Secret(std::move(*key));
  return tcp;
}

class Place final : public TcpPlace {
 public:
  Place(net::EventLoop& loop, base::Fd socket, std::shared_ptr<tls::Context> context,
        agent::Server& server)
      : acceptor_(loop, log_, std::move(socket), std::move(context),
                  {.connections = agent::Server::kConnectionsMax + kHandshakesMax,
                   .handshakes = kHandshakesMax},
                  [&server](base::Fd plain, const std::string& /*remote*/) {
                    server.adopt(std::move(plain));
                  }) {}

  net::Task<void> serve() override {
    co_await acceptor_.run();
    co_await acceptor_.end();
  }

 private:
  base::Log log_{STDERR_FILENO};
  tls::Acceptor acceptor_;
};

}  // namespace

Result<std::unique_ptr<TcpPlace>> listen_on_tcp(net::EventLoop& loop, agent::Server& server,
                                                const base::Secret& config) {
  // The image's files say nothing of how the agent's TLS works.
  ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(config.reveal()));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const auto tcp, reader.optional<wire::json::Object>("tcp"));
  if (!tcp) {
    return nullptr;
  }
  ASSIGN_OR_RETURN(const TcpConfig place, parse_tcp(*tcp));
  ASSIGN_OR_RETURN(auto context, tls::Context::pinned(place.pin));
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(place.address, kBacklog));
  return std::make_unique<Place>(loop, std::move(socket), std::move(context), server);
}
