// The file system rights of another user for the length of a block, on the loop thread. The block
// must not suspend. The kernel takes the capabilities over files away with user 0's file system id
// and gives them back with it.
#pragma once

#include "agent/accounts.h"

namespace agent {

class ActingAs {
 public:
  explicit ActingAs(const Identity& identity);
  ~ActingAs();
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

 private:
  bool changed_;
};

// The same for all that the kernel asks, ports and the credentials that a peer is shown included.
// No capability is left meanwhile.
class ActingFullyAs {
 public:
  explicit ActingFullyAs(const Identity& identity);
  ~ActingFullyAs();
  ActingFullyAs(const ActingFullyAs&) = delete;
  ActingFullyAs& operator=(const ActingFullyAs&) = delete;

 private:
  bool changed_;
};

}  // namespace agent
