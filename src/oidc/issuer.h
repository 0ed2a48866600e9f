// Issuer: what is known of the configured OpenID issuer, and what is asked of it. Its discovery
// document and keys are fetched in the background, at the start, every kFetchEvery, and once more
// for a token with a key that is not known; what was fetched last holds while the issuer is away,
// for kKeysHoldFor. Asking is done on threads of its own: the loop never waits.
// Owned by main; loop thread only. Bounds: one fetch at a time and one in kFetchPause, at most
// kExchangesMax sign-ins that wait for the issuer, kAsksInSecondMax begun in a second. stop() must
// be awaited before it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "net/blocking_pool.h"
#include "net/task_group.h"
#include "oidc/http.h"
#include "oidc/key_set.h"

namespace oidc {

// The issuer's answers to a code: what the person may see of itself.
struct Granted {
  std::string id_token;
  base::Secret access_token;
};

class Issuer {
 public:
  static constexpr std::chrono::minutes kFetchEvery{5};
  // Of fetches that somebody's token asks for; and the first pause after one that failed.
  static constexpr std::chrono::seconds kFetchPause{5};
  // How long a request waits for one.
  static constexpr std::chrono::seconds kFetchPatience{5};
  // An issuer that is away for longer could have withdrawn any key.
  static constexpr std::chrono::hours kKeysHoldFor{24};
  static constexpr size_t kExchangesMax = 32;
  // Anybody can begin a sign-in: the issuer is not asked more often than that.
  static constexpr int kAsksInSecondMax = 20;

  struct Settings {
    std::string url;
    std::string client_id;
    base::Secret client_secret;  // empty: a public client
  };
  Issuer(net::EventLoop& loop, base::Clock& clock, base::Log& log, Http& http, Settings settings);
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  // Fetches until stop(). `http` gives up soon when it is told to.
  void start();
  net::Task<void> stop();

  // nullptr: none were fetched yet, or too long ago.
  [[nodiscard]] const KeySet* keys() const;
  // Another number with each set of keys.
  [[nodiscard]] uint64_t keys_version() const { return keys_version_; }
  // Fetches once more, unless it was done a moment ago; waits for it at most kFetchPatience.
  net::Task<void> fetch_again();

  // From its discovery document; unavailable while there is none.
  struct Endpoints {
    std::string keys;
    std::string authorization;  // these may be empty
    std::string token;
    std::string userinfo;
    std::string end_session;
    std::string device_authorization;
    bool takes_basic = true;  // the client's secret in a header, not in the form
  };
  [[nodiscard]] Result<const Endpoints*> endpoints() const;
  // Changes the code of a sign-in into tokens. unauthenticated: the issuer refuses it; unavailable,
  // overloaded.
  net::Task<Result<Granted>> exchange(std::string code, std::string verifier,
                                      std::string redirect_url);
  // What a person types where, on a machine with a browser (RFC 8628).
  struct Device {
    std::string code;  // what finish_device() wants
    std::string user_code;
    std::string address;
    std::string address_with_code;  // may be empty
    int64_t interval_sec = 5;       // between two calls of finish_device()
    int64_t lifetime_sec = 0;
  };
  net::Task<Result<Device>> begin_device(std::string scopes);
  // nullopt: the person has not done it yet. Errors as of exchange().
  net::Task<Result<std::optional<Granted>>> finish_device(std::string code);
  // What it says of the one whose access token it is, as JSON.
  net::Task<Result<wire::json::Object>> user_info(base::Secret access_token);

  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  struct Known {
    Endpoints endpoints;
    KeySet keys;
  };
  // Blocks.
  Result<Known> fetch();
  Result<wire::json::Object> fetch_document(const std::string& url);
  Result<Endpoints> read_discovery(const wire::json::Object& document) const;
  net::Task<void> fetch_once();
  net::Task<void> run();
  net::Task<Result<HttpAnswer>> ask(HttpRequest request);
  using Form = std::vector<std::pair<std::string_view, std::string>>;
  // With what shows that it is this client that asks.
  [[nodiscard]] HttpRequest client_request(const std::string& url, Form form) const;
  // Of the token endpoint; nullopt: not yet.
  net::Task<Result<std::optional<Granted>>> grant(Form form);

  base::Clock& clock_;
  base::Log& log_;
  Http& http_;
  Settings settings_;
  std::optional<Known> known_;
  base::SteadyTime fetched_at_;  // of what is known
  base::SteadyTime tried_at_;
  uint64_t keys_version_ = 0;
  uint64_t fetches_ = 0;
  bool fetching_ = false;
  bool failing_ = false;  // the last fetch failed
  size_t exchanges_ = 0;
  base::SteadyTime asks_since_;  // the second in which asks_ are counted
  int asks_ = 0;
  net::EventLoop& loop_;
  net::Event fetched_;
  net::BlockingPool fetch_pool_;
  net::BlockingPool ask_pool_;
  net::TaskGroup group_;
};

}  // namespace oidc
