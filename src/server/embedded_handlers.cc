#include <algorithm>
#include <array>

#include "server/content_coding.h"
#include "server/embedded_files.h"
#include "server/handlers.h"
#include "wire/entity_tag.h"

namespace server {
namespace {

constexpr int kOk = 200;
constexpr int kNotModified = 304;
// More than the largest file of the page (1.7 MB); what is embedded is our own.
constexpr size_t kDocsFileBytesMax = 8 << 20;

// The page runs its own scripts and asks its own gateway, nothing else; `data:` are the icons of
// Swagger UI's style sheet.
constexpr std::string_view kDocsPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// A file changes with the program only; its ETag then tells.
constexpr std::string_view kDocsCaching = "public, max-age=3600";

std::string_view content_type(std::string_view name) {
  struct Type {
    std::string_view ending;
    std::string_view type;
  };
  static constexpr std::array kTypes{
      Type{".html", "text/html; charset=utf-8"}, Type{".js", "text/javascript; charset=utf-8"},
      Type{".css", "text/css; charset=utf-8"},   Type{".png", "image/png"},
      Type{".txt", "text/plain; charset=utf-8"}, Type{".py", "text/x-python; charset=utf-8"}};
  const auto found =
      std::ranges::find_if(kTypes, [&](const Type& type) { return name.ends_with(type.ending); });
  return found == kTypes.end() ? "application/octet-stream" : found->type;
}

const EmbeddedFile* find_file(std::span<const EmbeddedFile> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  return found == files.end() ? nullptr : &*found;
}

std::string text_of(const EmbeddedFile& file) {
  std::string text;
  for (const std::string_view piece : file.pieces) {
    text += piece;
  }
  return text;
}

Task<Result<void>> answer_docs(Exchange& exchange, std::string_view name) {
  const EmbeddedFile* file = find_file(docs_files(), name);
  if (file == nullptr) {
    co_return docs_files().empty()
        ? base::fail(ErrorCode::not_found,
                     "this gateway was built without Swagger UI; /openapi.json has the document")
        : base::fail(ErrorCode::not_found, "there is no such file");
  }
  const std::string* known = exchange.request().find("if-none-match");
  const bool is_known = known != nullptr && wire::http::names_tag(*known, file->etag);
  const int status = is_known ? kNotModified : kOk;
  auto head = exchange.start_head(status);
  head.add("etag", file->etag)
      .add("cache-control", kDocsCaching)
      .add("vary", "accept-encoding")
      .add("content-security-policy", kDocsPolicy)
      .add("referrer-policy", "no-referrer");
  if (is_known) {
    co_return co_await exchange.answer_whole(std::move(head), status, {});
  }
  std::string body = text_of(*file);
  if (accepts_gzip(exchange.request().find("accept-encoding"))) {
    head.add("content-encoding", "gzip");
  } else {
    auto decode = [&body] { return decode_content("gzip", std::move(body), kDocsFileBytesMax); };
    CO_ASSIGN_OR_RETURN(body, co_await exchange.code(kDocsFileBytesMax, decode));
  }
  head.add("content-type", content_type(name)).add_length(body.size());
  co_return co_await exchange.answer_whole(std::move(head), status, body);
}

}  // namespace

Task<Result<void>> client_file(Application& /*application*/, Exchange& exchange) {
  const std::string& name = exchange.segment(0);
  const EmbeddedFile* file = find_file(client_files(), name);
  if (file == nullptr) {
    co_return base::fail(ErrorCode::not_found, "there is no client '", name, "'");
  }
  co_return co_await exchange.answer_text(kOk, content_type(name), text_of(*file));
}

Task<Result<void>> docs_page(Application& /*application*/, Exchange& exchange) {
  return answer_docs(exchange, "index.html");
}

Task<Result<void>> docs_file(Application& /*application*/, Exchange& exchange) {
  return answer_docs(exchange, exchange.segment(0));
}

}  // namespace server
