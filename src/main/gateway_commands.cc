#include "main/gateway_commands.h"

#include <stdio.h>
#include <sys/stat.h>

#include "config/gateway_options.h"
#include "main/gateway_places.h"
#include "service/audit_check.h"
#include "service/key_rotation.h"
#include "service/store_setup.h"

namespace gateway_commands {

using base::Result;
using gateway_places::Places;
using gateway_places::places_of;
using gateway_places::store_url;

int run_migrate(const config::Settings& settings, std::string_view word) {
  ::umask(0077);
  const Places places = places_of(settings);
  const auto mode = word == "status"       ? service::MigrateMode::status
                    : word == "--dry-run"  ? service::MigrateMode::dry_run
                    : word == "forget-key" ? service::MigrateMode::forget_key
                                           : service::MigrateMode::apply;
  const base::RealClock clock;
  const auto right = service::migrate_store(store_url(settings, places), mode, clock);
  if (!right) {
    ::fprintf(stderr, "sandbox-gateway: %s\n", right.error().message.c_str());
  }
  return right && *right ? 0 : 1;
}

int run_keys(const config::Settings& settings, std::string_view word) {
  ::umask(0077);
  const Places places = places_of(settings);
  const std::string url = store_url(settings, places);
  base::KernelRandom random;
  const base::RealClock clock;
  const auto told = [&]() -> Result<std::string> {
    ASSIGN_OR_RETURN(const bool shared, service::is_shared_store(url));
    ASSIGN_OR_RETURN(auto store, store::Store::open(url));
    service::KeyWork work{.store = *store,
                          .sources = gateway_places::key_sources(settings, places),
                          .data_folder = places.data,
                          .shared = shared,
                          .random = random,
                          .clock = clock};
    return word == "rotate"   ? service::rotate_keys(work)
           : word == "retire" ? service::retire_keys(work)
                              : service::list_keys(work);
  }();
  if (!told) {
    ::fprintf(stderr, "sandbox-gateway: %s\n", told.error().message.c_str());
    return 1;
  }
  ::puts(told->c_str());
  return 0;
}

int run_audit(std::vector<std::string> arguments, const config::Environment& environment) {
  const std::string word = arguments.empty() ? "" : arguments.front();
  arguments.erase(arguments.begin(), arguments.begin() + (arguments.empty() ? 0 : 1));
  std::string noted;
  if (arguments.size() >= 2 && arguments.front() == "--noted") {
    noted = arguments.at(1);
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  const auto asked =
      config::read_command_line(config::gateway_program(), arguments, environment, nullptr);
  if (asked.exit) {
    return *asked.exit;
  }
  const auto told = [&]() -> Result<std::string> {
    ASSIGN_OR_RETURN(auto store,
                     store::Store::open(store_url(asked.settings, places_of(asked.settings))));
    return service::check_audit(*store, word, noted);
  }();
  if (!told) {
    ::fprintf(stderr, "sandbox-gateway: %s\n", told.error().message.c_str());
    return 1;
  }
  ::puts(told->c_str());
  return 0;
}

}  // namespace gateway_commands
