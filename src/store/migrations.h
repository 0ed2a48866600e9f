// The schema's steps, embedded by cmake/Migrations.cmake from migrations/NNNN_*.sql. A step that
// was released is never edited; a change is a new step.
#pragma once

#include <span>

#include "base/error.h"
#include "store/database.h"

namespace store {

// Step i (from 0) makes schema version i + 1.
std::span<const char* const> migrations();
// Brings the database to the version of this program, each step in a transaction of its own.
Result<void> migrate(Database& database, std::span<const char* const> steps);

}  // namespace store
