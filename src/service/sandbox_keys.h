// A sandbox's ed25519 key pair: made with it, kept with its row, its private half sealed. By it the
// gateway and the sandbox's agent know each other where the agent listens on TCP (tls/pinned.h).
// Pure.
#pragma once

#include "service/live_sandbox.h"
#include "service/secret_box.h"

namespace service {

// A key pair for a row that has its id already.
void give_key(const SecretBox& secrets, SandboxRow& row);
// The private half, 32 bytes. not_found: the sandbox is older than keys are, or gone.
base::Result<base::Secret> open_sandbox_key(const SecretBox& secrets, const SandboxRow& row);

}  // namespace service
