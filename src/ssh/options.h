// What sandbox-ssh is told, and every bound of it with its reason. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace ssh {

struct Options {
  std::string listen;          // "0.0.0.0:2222"
  std::string gateway_socket;  // of sandbox-gateway
  base::Milliseconds login_time{20'000};
  base::Milliseconds keep_alive{15'000};  // of silence, until the client is asked; see kMissedMax
  size_t connections_max = 1'000;
  size_t logins_max = 64;              // under way at once, from everywhere
  size_t logins_per_address_max = 32;  // and from one address
  size_t channels_max = 64;            // of one connection
};

// Questions without an answer after which a client is gone: with 15 s each, a minute of silence.
inline constexpr int kMissedMax = 3;
// A refused client is told so after a pause: it may try again at once, but not fast.
inline constexpr base::Milliseconds kRefusalPause{1'000};
// OpenSSH closes by itself; others are closed upon.
inline constexpr base::Milliseconds kGoodbyePatience{2'000};
// Variables that a client may set; the rest is refused, since programs obey some of them in ways
// that who wrote the command did not mean (LD_PRELOAD, PATH).
inline constexpr size_t kVariablesMax = 64;
inline constexpr size_t kVariableBytesMax = 4096;
inline constexpr size_t kTerminalNameBytesMax = 64;
inline constexpr int kSideMax = 10'000;  // of a terminal, as the gateway takes it
inline constexpr int kColumnsDefault = 80;
inline constexpr int kRowsDefault = 24;
// An exec's command line; SSH packets would allow 256 KiB, and scripts come on standard input.
inline constexpr size_t kCommandBytesMax = size_t{256} * 1024;
// Ports that one connection may have listened on inside (the agent's own bound).
inline constexpr size_t kListenersMax = 16;
inline constexpr size_t kGlobalsMax = 64;  // requests of a client that wait for an answer

}  // namespace ssh
