// Sign-in of a program without a browser (RFC 8628): the person types a code at the issuer, on
// whatever machine they have one, while the program asks here until that is done. It ends with a
// session that the program shows as a bearer token. Nothing is kept here: what has to be remembered
// meanwhile is sealed and given to the program. Owned by main; loop thread only.
#pragma once

#include <optional>
#include <string>

#include "service/sign_in.h"

namespace service {

class DeviceSignIn {
 public:
  explicit DeviceSignIn(SignIn& sign_in) : sign_in_(sign_in) {}

  struct Begun {
    std::string attempt;  // what finish() wants
    oidc::Issuer::Device device;
  };
  // not_supported: the issuer offers no such sign-in; unavailable, overloaded.
  net::Task<base::Result<Begun>> begin();

  struct Ended {
    std::string token;
    Caller caller;
  };
  // nullopt: not yet. unauthenticated: not what was begun, too late, or the issuer says no;
  // forbidden: in no team; unavailable, overloaded.
  net::Task<base::Result<std::optional<Ended>>> finish(std::string attempt, std::string remote);

 private:
  SignIn& sign_in_;
};

}  // namespace service
