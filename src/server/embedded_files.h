// Files that are part of the program, put in when it is built (tools/embed_files.py).
#pragma once

#include <span>
#include <string_view>

namespace server {

struct EmbeddedFile {
  std::string_view name;                     // "sandbox_gateway.py"
  std::string_view etag;                     // with its quotes
  std::span<const std::string_view> pieces;  // its bytes
};

// clients/python/*.py and clients/js/*.js, served at /clients/{file}. In order of their names.
std::span<const EmbeddedFile> client_files();
// Swagger UI and the page around it (api/docs/), served at /docs and /docs/{file}; each in gzip. In
// order of their names; empty in a build that had no Swagger UI (tools/swagger_ui.py).
std::span<const EmbeddedFile> docs_files();

}  // namespace server
