// read_rows: what a statement finds, as values.
#pragma once

#include <vector>

#include "store/database.h"

namespace store {

// All rows of a statement, each by `read`.
template <typename T>
Result<std::vector<T>> read_rows(Statement& statement, Result<T> (*read)(const Statement&)) {
  std::vector<T> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    ASSIGN_OR_RETURN(T row, read(statement));
    out.push_back(std::move(row));
  }
}

}  // namespace store
