// How a team reaches its registries: kept sealed in the store, in memory for the hot path. Loop
// thread only. Secrets go in, never out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "service/context.h"

namespace service {

// What may be shown of one.
struct RegistryView {
  std::string host;
  std::string username;
  std::string mirror;
  bool plain_http = false;
  bool has_secret = false;
};

// A mirror of each registry's host, as a team's entry has it.
using RegistryMirrors = std::map<std::string, std::string>;
// "host=mirror" as often as wanted, between blanks or commas; an error says what is not right.
base::Result<RegistryMirrors> parse_registry_mirrors(std::string_view text);

class Registries {
 public:
  // `mirrors`: the operator's, for teams that have none of their own.
  explicit Registries(Context& context, RegistryMirrors mirrors = {})
      : context_(context), mirrors_(std::move(mirrors)) {}

  net::Task<base::Result<void>> load();
  // `body`: {"username", "password" | "token", "mirror", "plain_http"}.
  net::Task<base::Result<RegistryView>> put(std::string team, std::string host, std::string body);
  [[nodiscard]] base::Result<RegistryView> get(const std::string& team,
                                               const std::string& host) const;
  [[nodiscard]] std::vector<RegistryView> list(const std::string& team) const;
  net::Task<base::Result<void>> remove(std::string team, std::string host);
  // The team is gone from the store, with what it had here.
  void forget(const std::string& team) { by_team_.erase(team); }

  // For a team's image of that name: anonymous HTTPS, by way of the operator's mirror where there
  // is one, where the team has set nothing.
  [[nodiscard]] base::Result<model::RegistryAccess> access(const std::string& team,
                                                           std::string_view image) const;

 private:
  using ByHost = std::map<std::string, store::Registry>;
  [[nodiscard]] const store::Registry* find(const std::string& team, const std::string& host) const;

  Context& context_;
  RegistryMirrors mirrors_;
  std::map<std::string, ByHost> by_team_;
};

}  // namespace service
