#include "server/openapi.h"

#include <array>
#include <string>

namespace server {
namespace {

// Made by tools/openapi_json.py.
constexpr std::array kPieces{
#include "openapi_json.inc"
};

}  // namespace

std::string_view openapi_json() {
  static const std::string document = [] {
    std::string whole;
    for (const std::string_view piece : kPieces) {
      whole += piece;
    }
    return whole;
  }();
  return document;
}

}  // namespace server
