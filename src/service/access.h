// Who calls: bearer tokens to callers. Of secrets only hashes are kept, in memory as in the store;
// a look-up goes by the hash of what was presented, so its time says nothing of a stored secret.
// What a member's token may do is looked up in the teams at each request: who leaves a team or
// loses a role there has lost it with the next one. Owned by main; loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "service/caller.h"
#include "service/context.h"
#include "service/token_hash.h"

namespace service {

class SandboxIdentity;
class SignIn;

class Access {
 public:
  explicit Access(Context& context) : context_(context) {}

  // What the store has of tokens and sign-ins; again, once others may have changed it.
  net::Task<base::Result<void>> load();
  // Where other gateways share the store: whether the bearer of a header is a token that the store
  // has and that was not known here yet. Then it is.
  net::Task<bool> look_up(std::string authorization);
  // What is a JWT by its form goes to `sign_in`, which outlives this.
  void use(SignIn* sign_in) { sign_in_ = sign_in; }
  // So do tokens of sandboxes to `sandboxes`.
  void use(SandboxIdentity* sandboxes) { sandboxes_ = sandboxes; }

  // `authorization` is the header's value or nullptr. unauthenticated for a missing or bad token;
  // of a JWT also what SignIn::verify() says.
  base::Result<Caller> authenticate(const std::string* authorization);
  // The sandbox whose token that is; empty: it is none.
  [[nodiscard]] std::string sandbox_in(const std::string& authorization) const;
  // Whether it is a JWT whose key is not known: then wait for fetch_keys() first.
  [[nodiscard]] bool lacks_key(const std::string* authorization) const;
  net::Task<void> fetch_keys();
  // The caller as it would be let in now: for what authenticated a while ago. unauthenticated.
  [[nodiscard]] base::Result<Caller> look_again(const Caller& caller) const;

  // What the store has taken.
  void add(store::Token token);
  void drop(const std::string& id);
  // nullptr: there is none.
  [[nodiscard]] const store::Token* find(const std::string& id) const;
  [[nodiscard]] std::vector<const store::Token*> all() const;

 private:
  using TokenPtr = std::shared_ptr<store::Token>;
  [[nodiscard]] base::Result<Caller> caller_of(const store::Token& token) const;
  void note_use(store::Token& token);

  Context& context_;
  SignIn* sign_in_ = nullptr;             // nullptr: nobody signs in
  SandboxIdentity* sandboxes_ = nullptr;  // nullptr: they have no tokens
  int64_t look_up_second_ = 0;
  int look_ups_ = 0;  // in that second
  std::unordered_map<std::string, TokenPtr> by_hash_;
  std::unordered_map<std::string, TokenPtr> by_id_;
};

}  // namespace service
