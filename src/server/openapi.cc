#include "server/openapi.h"

namespace server {
namespace {

// Made by tools/openapi_json.py; string literals of at most 8 KiB each.
constexpr char kDocument[] =
#include "openapi_json.inc"
    ;

}  // namespace

std::string_view openapi_json() { return {kDocument, sizeof kDocument - 1}; }

}  // namespace server
