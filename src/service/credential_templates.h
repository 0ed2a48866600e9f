// What the operator wants written into sandboxes: files and environment variables with tokens in
// them (docs/identity.md). Read once at start; what is wrong there is an error that names the
// field. A template's text is taken as it is but for {{ name }} and {{ json name }}, of few names;
// there is no logic. Values; pure.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "wire/json.h"

namespace service {

// Where a sandbox reaches its gateway (docs/network.md).
inline constexpr std::string_view kInnerGatewayUrl = "http://169.254.1.1";

// What a text may name, besides `secret.NAME`.
enum class TemplateName {
  token,             // of the template's source
  token_expires_at,  // when it is over, RFC 3339
  gateway_url,       // of this gateway, as it is reached inside
  issuer,            // as identity tokens have it
  sandbox_id,
  sandbox_team,
  sandbox_owner,
  sandbox_image,
};
inline constexpr size_t kTemplateNames = 8;
using TemplateValues = std::array<std::string, kTemplateNames>;

class TemplateText {
 public:
  // `field` names it in errors; `secrets`: those that `secret.NAME` may name.
  static base::Result<TemplateText> parse(const std::string& field, std::string_view text,
                                          const std::map<std::string, base::Secret>& secrets);
  [[nodiscard]] std::string render(const TemplateValues& values) const;

 private:
  struct Piece {
    std::string text;       // as it is, or the secret's
    bool is_value = false;  // of `name`
    TemplateName name = {};
    bool as_json = false;  // a JSON string with its quotes
  };
  std::vector<Piece> pieces_;
};

// Where a template's token is from.
struct TokenSource {
  enum class Kind { gateway, audience, service };
  Kind kind = Kind::gateway;  // a token of this gateway
  std::string name;           // the audience of an identity token, or the service's name
  auto operator<=>(const TokenSource&) const = default;
};

struct TemplateFile {
  std::string path;  // absolute, or below the home of the sandbox's user: ~/...
  TemplateText content;
};

struct TemplateVariable {
  std::string name;
  TemplateText value;  // ~/... likewise
};

struct CredentialTemplate {
  std::string name;
  TokenSource source;
  std::vector<TemplateFile> files;
  std::vector<TemplateVariable> variables;
};

// Something else that gives tokens for identity tokens (RFC 8693).
struct OutsideService {
  std::string name;
  std::string token_endpoint;
  std::string audience;  // of the identity token that it is shown
  std::string client_id;
  base::Secret client_secret;
  std::string scope;
  std::string resource;
  std::string target;      // its parameter `audience`
  std::string token_type;  // its parameter `requested_token_type`
};

struct CredentialSettings {
  std::vector<std::string> audiences;  // that sandboxes get identity tokens for
  std::vector<OutsideService> services;
  std::vector<CredentialTemplate> templates;  // those in use
  [[nodiscard]] const OutsideService* find_service(std::string_view name) const;
};

// `document`: the operator's file, or empty. `shipped`: names of templates that come with the
// program and are in use, besides all of the document's. `read`: the text of a file of a secret.
using ReadSecretFile = std::function<base::Result<std::string>(const std::string& path)>;
base::Result<CredentialSettings> parse_credentials(const wire::json::Object& document,
                                                   const std::vector<std::string>& shipped,
                                                   const ReadSecretFile& read);

// The templates that come with the program, as the document of `templates` has them.
std::string_view shipped_templates();

}  // namespace service
