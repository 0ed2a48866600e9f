// Every bound of the HTTP front, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace server {

// Longer than any client pool's idle time we know, so that it is never us who closes first.
inline constexpr base::Milliseconds kIdlePatience{120'000};
// A head is one packet or two; a client that drips it holds a connection for nothing.
inline constexpr base::Milliseconds kHeadPatience{20'000};
// Between two pieces of a body, and for room in a client's window.
inline constexpr base::Milliseconds kBodyPatience{60'000};
inline constexpr base::Milliseconds kWritePatience{60'000};
// One descriptor for the client and one for the agent each; below the usual hard limit of files.
inline constexpr size_t kConnectionsMax = 8192;
// Of one sandbox: it is one client among all, and none is to take the others' places.
inline constexpr size_t kInnerConnectionsMax = 64;
inline constexpr int kBacklog = 1024;
// What is left of a body after an early answer: read on up to this to keep the connection.
inline constexpr size_t kDrainBytesMax = size_t{256} * 1024;
inline constexpr base::Milliseconds kDrainPatience{2'000};
// Before a connection is closed behind an early answer: many clients look for an answer only once
// their body is out, and closing with bytes unread would reset the connection under it.
inline constexpr size_t kLingerBytesMax = size_t{64} * 1024 * 1024;
// A sandbox's description; it has to fit a line of the node's protocol (1 MiB) once escaped.
inline constexpr size_t kCreateBodyBytesMax = size_t{384} * 1024;
inline constexpr size_t kSmallBodyBytesMax = size_t{64} * 1024;
// 8 MiB of standard input in base64 and room for argv and env (api/agent-protocol.md).
inline constexpr size_t kRunBodyBytesMax = size_t{12} * 1024 * 1024;
// The line of JSON before an exec's standard input, with its newline (api/agent-protocol.md).
inline constexpr size_t kExecLineBytesMax = size_t{1024} * 1024;
// An image's root file system; larger ones come from a registry.
inline constexpr uint64_t kImportBytesMax = uint64_t{32} * 1024 * 1024 * 1024;
// What a compressed upload may become: twice the largest image. Who really sends more sends it
// plain, where every byte costs its sender one.
inline constexpr uint64_t kInflatedBytesMax = 2 * kImportBytesMax;
// A millisecond of gzip; what is larger is coded beside the loop.
inline constexpr uint64_t kCodeOnLoopBytesMax = uint64_t{64} * 1024;
// Below it compression saves less than a packet.
inline constexpr size_t kCompressBytesMin = 1024;
// How often it is looked who lost the right to what goes on.
inline constexpr base::Milliseconds kAccessLook{1'000};
// A definition of a thousand teams.
inline constexpr size_t kTeamsBodyBytesMax = size_t{4} * 1024 * 1024;
// Longest `?wait=`.
inline constexpr int64_t kWaitSecondsMax = 300;
inline constexpr int64_t kListDefault = 100;
inline constexpr int64_t kListMax = 1000;
// A comment line on a silent event stream keeps proxies awake.
inline constexpr base::Milliseconds kStreamKeepAlive{15'000};
// What an agent may take to begin its answer to a file request.
inline constexpr base::Milliseconds kAgentPatience{60'000};
// A command or a stream may be silent, and its reader stand still, as long as the sandbox lives;
// the end of a peer is told by its connection (kept alive by probes), never by this.
inline constexpr base::Milliseconds kStreamPatience{std::chrono::hours(24 * 7)};
// An agent's answer up to this size goes out in one write with its head.
inline constexpr size_t kWholeAnswerBytesMax = size_t{64} * 1024;
// Bodies above it are moved inside the kernel.
inline constexpr uint64_t kSpliceBytesMin = uint64_t{64} * 1024;

}  // namespace server
