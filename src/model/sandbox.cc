#include "model/sandbox.h"

#include <algorithm>
#include <array>
#include <utility>

namespace model {
namespace {

template <typename E>
struct Row {
  E value;
  std::string_view name;
};

constexpr auto kStates = std::to_array<Row<SandboxState>>({
    {SandboxState::queued, "queued"},
    {SandboxState::starting, "starting"},
    {SandboxState::ready, "ready"},
    {SandboxState::failed, "failed"},
    {SandboxState::deleting, "deleting"},
    {SandboxState::deleted, "deleted"},
});

template <typename E, size_t N>
std::string_view name_of(const std::array<Row<E>, N>& rows, E value) {
  return std::ranges::find(rows, value, &Row<E>::value)->name;
}
template <typename E, size_t N>
std::optional<E> value_of(const std::array<Row<E>, N>& rows, std::string_view name) {
  const auto* found = std::ranges::find(rows, name, &Row<E>::name);
  return found == rows.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace

std::string_view to_string(SandboxState state) { return name_of(kStates, state); }
std::optional<SandboxState> parse_sandbox_state(std::string_view text) {
  return value_of(kStates, text);
}

}  // namespace model
