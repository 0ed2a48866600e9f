// The use cases of /tokens. Of a token's secret only its hash is kept; the secret itself is in the
// answer that made it and nowhere else. Owned by main; loop thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "service/access.h"

namespace service {

using Token = store::Token;

class Tokens {
 public:
  Tokens(Context& context, Access& access) : context_(context), access_(access) {}

  struct Issued {
    Token token;
    std::string secret;
  };
  // `body`: {"name", "scopes", "team"?, "subject"?, "role"?, "every_team"?, "expires_in_sec"? or
  // "expires_at"?}. forbidden: what the caller may not give away; not_found: a team it is not in.
  net::Task<base::Result<Issued>> create(Caller caller, std::string body);
  // Those the caller may see: its own, all of a team that it administers. Newest first.
  [[nodiscard]] std::vector<const Token*> list(const Caller& caller) const;
  // not_found where it may not be seen.
  [[nodiscard]] base::Result<const Token*> get(const Caller& caller, const std::string& id) const;
  // With the next request it is not valid.
  net::Task<base::Result<Token>> revoke(Caller caller, std::string id);

 private:
  [[nodiscard]] bool may_see(const Caller& caller, const Token& token) const;
  [[nodiscard]] base::Result<Token> parse(const Caller& caller,
                                          const wire::json::Object& body) const;
  [[nodiscard]] base::Result<void> check_grant(const Caller& caller, const Token& token) const;

  Context& context_;
  Access& access_;
};

// Whether `a` stands before `b` in a list: the newer one, equal times by id.
bool is_listed_before(const Token& a, const Token& b);

}  // namespace service
