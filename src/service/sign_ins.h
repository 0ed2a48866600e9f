// Who has signed in: a row for each session of a person, in memory and in the store. What a browser
// or a program holds says who it is (SignIn); that it still counts, says its row: ended here, it is
// refused at every gateway. Owned by SignIn; loop thread only. Bounded by the people there are and
// what each may have (kOfPersonMax), for as long as a session lasts.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "service/context.h"

namespace service {

using SignInRow = store::SignIn;

class SignIns {
 public:
  // One who signs in again and again loses the oldest.
  static constexpr size_t kOfPersonMax = 100;

  explicit SignIns(Context& context) : context_(context) {}

  // What the store has; again, once others may have changed it.
  net::Task<base::Result<void>> load();
  // Where other gateways share the store: whether it has one of that id that was not known here
  // yet. Then it is.
  net::Task<bool> look_up(std::string id);
  net::Task<base::Result<void>> add(SignInRow row);
  // nullptr: there is none, or its time is over.
  [[nodiscard]] const SignInRow* find(const std::string& id) const;
  // It was used now.
  void note_use(const std::string& id);
  // The newest first; of everybody without a subject.
  [[nodiscard]] std::vector<SignInRow> list(std::string_view subject) const;
  // From the next request on they are refused; streams end within two seconds.
  net::Task<base::Result<void>> end(std::vector<std::string> ids);

 private:
  Context& context_;
  int64_t look_up_second_ = 0;
  int look_ups_ = 0;  // in that second
  std::unordered_map<std::string, SignInRow> by_id_;
};

}  // namespace service
