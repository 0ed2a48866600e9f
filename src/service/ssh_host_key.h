// The key by which SSH clients know the gateway (ed25519): made once, sealed in the store, so that
// all gateways on it have the same. Blocks; before the loop runs.
#pragma once

#include <string>

#include "service/secret_box.h"
#include "store/store.h"

namespace service {

struct SshHostKey {
  base::Secret private_key;  // as in a key file of OpenSSH
  std::string public_line;   // "ssh-ed25519 AAAA…", as in a file of known hosts
};

base::Result<SshHostKey> open_ssh_host_key(store::Store& store, const SecretBox& secrets);
// Where the key that sealed it is given up. The next one is new to all clients.
base::Result<void> forget_ssh_host_key(store::Store& store);

}  // namespace service
