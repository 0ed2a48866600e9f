// Where tests kill the gateway (base/fault.h), and the commands beside it. The tests ask the
// program for the list.
#pragma once

#include <array>

inline constexpr std::array kFaultPoints{
    "gateway.create.before_insert", "gateway.create.after_insert", "gateway.create.after_engine",
    "gateway.admit.before_store",   "gateway.admit.after_store",   "gateway.reclaim.decided",
    "gateway.reclaim.ended",        "gateway.reclaim.released",    "gateway.relay.begun",
    "gateway.relay.asked",          "gateway.relay.answered",      "gateway.relay.told",
    "gateway.delete.before_store",  "gateway.delete.after_store",  "gateway.delete.after_engine",
    "gateway.build.inserted",       "gateway.build.sent",          "gateway.build.bases",
    "gateway.build.started",        "gateway.build.fetched",       "gateway.build.imported",
    "gateway.build.told",           "gateway.keys.staged",         "gateway.keys.changed",
    "gateway.keys.batch",
};
