#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "server/answers_json.h"
#include "server/client_watch.h"
#include "server/event_stream.h"
#include "server/handlers.h"

namespace server {
namespace {

// Progress of a pull is looked at this often; a person watches it.
constexpr base::Milliseconds kPullLook{250};

Result<void> check_team(const Exchange& exchange) {
  if (exchange.segment(0) != exchange.caller().team) {
    return base::fail(ErrorCode::not_found, "team '", exchange.segment(0), "' does not exist");
  }
  return {};
}

// The body into an unnamed file, one piece at a time.
Task<Result<base::Fd>> spool_body(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(base::Fd file, application.images.open_spool());
  CO_RETURN_IF_ERROR(co_await exchange.allow_body());
  uint64_t size = 0;
  for (;;) {
    const auto piece = co_await exchange.reader().read_body(net::Deadline::after(kBodyPatience));
    if (!piece && piece.error().code == ErrorCode::deadline_exceeded) {
      co_return base::fail(ErrorCode::request_timeout, "the body stopped arriving");
    }
    if (!piece && piece.error().code == ErrorCode::connection_closed) {
      exchange.abandon();
    }
    CO_RETURN_IF_ERROR(piece);
    if (piece->empty()) {
      break;
    }
    size += piece->size();
    if (size > kImportBytesMax) {
      co_return base::fail(ErrorCode::body_too_large, "the body exceeds ", kImportBytesMax,
                           " bytes");
    }
    const int fd = file.get();
    auto write = [fd, bytes = *piece] { return base::sys::write_all(fd, bytes); };
    const auto written = co_await application.images.pool().run(std::move(write));
    if (!written && written.error().errno_value == ENOSPC) {
      co_return base::fail(ErrorCode::disk_full, "the gateway's disk is full");
    }
    CO_RETURN_IF_ERROR(written);
  }
  if (size == 0) {
    co_return std::unexpected(
        Error{.code = ErrorCode::archive_invalid, .message = "the body is empty", .details = {}});
  }
  // The importer reads from where the shared offset stands.
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    co_return base::fail_errno(errno, "seek in the spooled body");
  }
  co_return file;
}

Task<Result<void>> import_image(Application& application, Exchange& exchange, std::string name) {
  exchange.audit().event = "image.import";
  exchange.note("image", service::audit_text(name));
  CO_RETURN_IF_ERROR(service::Images::check_name(name));
  // Compressed tars are the importer's business, whatever the header calls them.
  CO_ASSIGN_OR_RETURN(auto file, co_await spool_body(application, exchange));
  CO_ASSIGN_OR_RETURN(const auto image,
                      co_await application.images.import(std::move(name), std::move(file)));
  co_return co_await exchange.answer_json(201, wire::json::serialize(image_json(image)));
}

Task<Result<void>> follow_pull(Application& application, Exchange& exchange, std::string id,
                               service::PullProgress progress) {
  EventStream stream(exchange);
  CO_RETURN_IF_ERROR(co_await stream.begin());
  const ClientWatch watch(exchange.client(), [] {});
  std::string last;
  auto told = std::chrono::steady_clock::now();
  while (!watch.gone()) {
    std::string text = wire::json::serialize(pull_json(id, progress));
    if (text != last) {
      CO_RETURN_IF_ERROR(co_await stream.send("", progress.state, text));
      last = std::move(text);
      told = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - told > kStreamKeepAlive) {
      CO_RETURN_IF_ERROR(co_await stream.keep_alive());
      told = std::chrono::steady_clock::now();
    }
    if (progress.state != "running") {
      co_return co_await stream.end();
    }
    const auto wake = co_await application.loop.sleep_until(net::Deadline::after(kPullLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the gateway stops");
    }
    CO_ASSIGN_OR_RETURN(progress, co_await application.images.progress(exchange.caller(), id));
  }
  exchange.close_after();
  co_return Result<void>{};
}

// Newest first; equal times by name, so that the order is whole.
bool is_listed_before(const service::ImageInfo& a, const service::ImageInfo& b) {
  return a.created_ms != b.created_ms ? a.created_ms > b.created_ms : a.name < b.name;
}

// "created_ms:name" of the last image of a page: the next page begins behind it, whatever has been
// added or removed since.
Result<service::ImageInfo> parse_image_cursor(std::string_view cursor) {
  const size_t colon = cursor.find(':');
  const auto created = base::parse_number<int64_t>(cursor.substr(0, colon));
  if (colon == std::string_view::npos || !created) {
    return base::fail_field("cursor", "'cursor' is not one that a list answered with");
  }
  return service::ImageInfo{.name = std::string(cursor.substr(colon + 1)), .created_ms = *created};
}

}  // namespace

Task<Result<void>> list_images(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"limit", "cursor"}));
  CO_ASSIGN_OR_RETURN(const int64_t limit,
                      exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const auto cursor, exchange.request().parameter("cursor"));
  CO_ASSIGN_OR_RETURN(auto images, co_await application.images.list(exchange.caller()));
  std::ranges::sort(images, is_listed_before);
  auto first = images.cbegin();
  if (cursor) {
    CO_ASSIGN_OR_RETURN(const auto last, parse_image_cursor(*cursor));
    first = std::ranges::upper_bound(images, last, is_listed_before);
  }
  wire::json::Array items;
  std::string next_cursor;
  for (auto image = first; image != images.cend(); ++image) {
    if (static_cast<int64_t>(items.size()) == limit) {
      next_cursor = base::cat(std::prev(image)->created_ms, ":", std::prev(image)->name);
      break;
    }
    items.push_back(image_json(*image));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), next_cursor));
}

Task<Result<void>> post_image(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"name"}));
  CO_ASSIGN_OR_RETURN(auto name, exchange.request().parameter("name"));
  if (name) {
    if (!exchange.caller().is_platform_admin) {
      co_return base::fail(ErrorCode::forbidden, "images are imported by admins of the platform");
    }
    co_return co_await import_image(application, exchange, std::move(*name));
  }
  exchange.audit().event = "image.pull";
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto id,
                      co_await application.images.pull(exchange.caller(), std::move(body)));
  CO_ASSIGN_OR_RETURN(const auto progress,
                      co_await application.images.progress(exchange.caller(), id));
  exchange.note("image", service::audit_text(progress.name));
  co_return co_await exchange.answer_json(202, wire::json::serialize(pull_json(id, progress)),
                                          {{"location", base::cat("/images/pulls/", id)}});
}

Task<Result<void>> get_image(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto image,
                      co_await application.images.get(exchange.caller(), exchange.segment(0)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(image_json(image)));
}

Task<Result<void>> delete_image(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("image", service::audit_text(exchange.segment(0)));
  CO_RETURN_IF_ERROR(co_await application.images.remove(exchange.segment(0)));
  co_return co_await exchange.answer_empty(204);
}

Task<Result<void>> collect_images(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto result, co_await application.images.gc());
  exchange.note("removed", result.removed.size());
  wire::json::Array removed;
  for (const std::string& name : result.removed) {
    removed.emplace_back(name);
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"freed_bytes", result.freed_bytes},
                                                    {"removed", std::move(removed)}}));
}

Task<Result<void>> get_pull(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"follow"}));
  CO_ASSIGN_OR_RETURN(const bool follow, exchange.flag_parameter("follow"));
  const std::string& id = exchange.segment(0);
  CO_ASSIGN_OR_RETURN(auto progress, co_await application.images.progress(exchange.caller(), id));
  if (follow && exchange.request().method != "HEAD") {
    co_return co_await follow_pull(application, exchange, id, std::move(progress));
  }
  co_return co_await exchange.answer_json(200, wire::json::serialize(pull_json(id, progress)));
}

Task<Result<void>> list_registries(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(check_team(exchange));
  wire::json::Array items;
  for (const service::RegistryView& registry :
       application.images.registries().list(exchange.segment(0))) {
    items.push_back(registry_json(registry));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), ""));
}

Task<Result<void>> get_registry(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(check_team(exchange));
  CO_ASSIGN_OR_RETURN(const auto registry, application.images.registries().get(
                                               exchange.segment(0), exchange.segment(1)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(registry_json(registry)));
}

Task<Result<void>> put_registry(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("host", service::audit_text(exchange.segment(1)));
  CO_RETURN_IF_ERROR(check_team(exchange));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto registry,
                      co_await application.images.registries().put(
                          exchange.segment(0), exchange.segment(1), std::move(body)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(registry_json(registry)));
}

Task<Result<void>> delete_registry(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("host", service::audit_text(exchange.segment(1)));
  CO_RETURN_IF_ERROR(check_team(exchange));
  CO_RETURN_IF_ERROR(
      co_await application.images.registries().remove(exchange.segment(0), exchange.segment(1)));
  co_return co_await exchange.answer_empty(204);
}

}  // namespace server
