// One row of the audit log: who did what, when, from where and with what end. A value.
#pragma once

#include <cstdint>
#include <string>

namespace model {

struct AuditRow {
  int64_t id = 0;  // counts up over all teams; given by the store
  std::string team;
  std::string sandbox;  // empty: of none
  int64_t at_ms = 0;
  std::string event;
  std::string caller;             // the token's subject
  std::string token;              // the token's id
  std::string remote;             // the address it called from
  int64_t status = 0;             // of the answer; 0: there was none, or none is known
  std::string error;              // the API's code; empty: it went well
  int64_t duration_ms = -1;       // -1: not measured
  std::string details_json = {};  // an object, on one line
  // SHA-256 in hex over the row and the hash of the row before it (wire/audit_chain.h); given by
  // the store; empty: the row is older than the chain.
  std::string hash = {};
  // For the counters of activity only; no part of the row. Contents that went in and came out.
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
};

// The end of the chain: who notes it down elsewhere can tell later whether the log was cut short or
// written anew.
struct AuditHead {
  int64_t id = 0;    // 0: there is no row yet
  std::string hash;  // of that row; empty: it is older than the chain
};

}  // namespace model
