// What the gateway's options name files for, read from them: at start and by `config check`.
#pragma once

#include <string>
#include <string_view>

#include "config/settings.h"
#include "service/credential_templates.h"
#include "service/sign_in_settings.h"
#include "wire/json.h"

namespace operator_files {

// A YAML file, which has that key.
base::Result<wire::json::Object> read_document(const std::string& file, std::string_view key);
// What the operator says of sign-ins, with what the files in it have. Errors name the option.
base::Result<service::SignInSettings> read_sign_in(const config::Settings& settings);
// What sandboxes are given as credentials. Errors name the option.
base::Result<service::CredentialSettings> read_credentials(const config::Settings& settings);

}  // namespace operator_files
