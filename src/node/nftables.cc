#include "node/nftables.h"

#include "node/program.h"

namespace node {

base::Result<void> load_rules(std::string_view rules) {
  RETURN_IF_ERROR(run_program({"nft", "-f", "-"}, rules));
  return {};
}

std::string without_table(std::string_view name) {
  // Declaring it first makes the deletion work where there is none.
  return base::cat("table inet ", name, " {}\ndelete table inet ", name, "\n");
}

}  // namespace node
