#include "main/operator_files.h"

#include "base/sys.h"
#include "definition/yaml.h"

namespace operator_files {

using base::Result;

Result<wire::json::Object> read_document(const std::string& file, std::string_view key) {
  ASSIGN_OR_RETURN(const auto text, base::sys::read_file(file, definition::kBytesMax));
  ASSIGN_OR_RETURN(auto document, base::with_context(definition::parse_yaml(text), file));
  if (!document.is_object()) {
    return base::fail(base::ErrorCode::malformed, file, ": it must have the key '", key, "'");
  }
  return std::move(document.get_object());
}

Result<service::CredentialSettings> read_credentials(const config::Settings& settings) {
  wire::json::Object document;
  const std::string& file = settings.text("credentials-file");
  if (!file.empty()) {
    ASSIGN_OR_RETURN(document,
                     base::with_context(read_document(file, "templates"), "credentials-file"));
  }
  const auto read_secret = [](const std::string& path) {
    return base::sys::read_file(path, service::kClientSecretBytesMax);
  };
  return base::with_context(
      service::parse_credentials(document, service::words_of(settings.text("credentials")),
                                 read_secret),
      file.empty() ? "credentials" : "credentials-file: " + file);
}

Result<service::SignInSettings> read_sign_in(const config::Settings& settings) {
  service::SignInSettings out{.issuer = settings.text("oidc-issuer"),
                              .client_id = settings.text("oidc-client-id"),
                              .client_secret = {},
                              .audiences = service::words_of(settings.text("oidc-audience")),
                              .subject_claim = settings.text("oidc-subject-claim"),
                              .groups_claim = settings.text("oidc-groups-claim"),
                              .scopes = settings.text("oidc-scopes"),
                              .public_url = settings.text("public-url"),
                              .ca_file = settings.text("oidc-ca-file"),
                              .skew_sec = settings.number("oidc-clock-skew"),
                              .session_sec = settings.number("session-lifetime"),
                              .groups = {}};
  if (out.audiences.empty() && !out.client_id.empty()) {
    out.audiences.push_back(out.client_id);
  }
  if (const std::string& file = settings.text("oidc-client-secret-file"); !file.empty()) {
    ASSIGN_OR_RETURN(auto secret,
                     base::with_context(base::sys::read_file(file, service::kClientSecretBytesMax),
                                        "oidc-client-secret-file"));
    secret.resize(secret.find_last_not_of("\r\n") + 1);
    out.client_secret = base::Secret(std::move(secret));
  }
  if (const std::string& file = settings.text("oidc-groups-file"); !file.empty()) {
    ASSIGN_OR_RETURN(const auto document,
                     base::with_context(read_document(file, "groups"), "oidc-groups-file"));
    ASSIGN_OR_RETURN(out.groups, base::with_context(service::parse_group_rules(document),
                                                    "oidc-groups-file: " + file));
  }
  RETURN_IF_ERROR(service::check_sign_in(out));
  return out;
}

}  // namespace operator_files
