// What stands behind the identities of sandboxes, as the gateway's settings have it.
#pragma once

#include <string>

#include "config/settings.h"
#include "oidc/http.h"
#include "service/credentials.h"

struct GatewayIdentity {
  static constexpr int64_t kMsPerSecond = 1000;
  static constexpr int64_t kMsPerDay = int64_t{24} * 3600 * kMsPerSecond;

  GatewayIdentity(service::Context& context, const config::Settings& options,
                  service::CredentialSettings settings)
      : templates(std::move(settings)),
        http(""),
        keys(context, {.rotation_ms = options.number("identity-rotation-days") * kMsPerDay,
                       .lifetime_ms = options.number("identity-lifetime") * kMsPerSecond}),
        tokens(context, keys,
               {.issuer = issuer_of(options),
                .lifetime_sec = options.number("identity-lifetime"),
                .audiences = templates.audiences}),
        exchange(context, tokens, templates, http),
        credentials(context, exchange, tokens, templates) {}

  static std::string issuer_of(const config::Settings& options) {
    const std::string& url = options.text("public-url");
    const bool is_https = !options.text("tls-cert").empty();
    return url.empty() ? base::cat(is_https ? "https://" : "http://", options.text("listen")) : url;
  }

  service::CredentialSettings templates;
  oidc::CurlHttp http;  // to outside services, by the system's authorities
  service::IdentityKeys keys;
  service::SandboxIdentity tokens;
  service::TokenExchange exchange;
  service::Credentials credentials;
};
