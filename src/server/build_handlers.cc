#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "model/image_reference.h"
#include "server/answers_json.h"
#include "server/body_source.h"
#include "server/client_watch.h"
#include "server/handlers.h"
#include "wire/tar_writer.h"

namespace server {
namespace {

// How often a log that is followed is looked at.
constexpr base::Milliseconds kLogLook{200};
constexpr size_t kNameBytesMax = 200;  // of a Dockerfile, a stage, an argument
constexpr size_t kValueBytesMax = size_t{32} * 1024;
constexpr size_t kArgumentsMax = 200;
constexpr size_t kDockerfileBytesMax = size_t{1} << 20;
// Enough of a body to tell what it is by.
constexpr size_t kMagicBytes = 4;
constexpr std::string_view kPlatform = "linux/amd64";
constexpr std::array kStates{"queued", "running", "succeeded", "failed", "cancelled"};

wire::json::Object build_json(const service::BuildRow& build, bool cached) {
  constexpr int64_t kWhole = 100;
  const bool succeeded = build.state == "succeeded";
  const int64_t percent = succeeded         ? kWhole
                          : build.steps > 0 ? build.steps_done * kWhole / build.steps
                                            : 0;
  return wire::json::Object{{"id", build.id},
                            {"digest", build.digest},
                            {"state", build.state},
                            {"image", base::cat(model::kBuildNamePrefix, build.digest)},
                            {"progress", wire::json::Object{{"done", build.steps_done},
                                                            {"total", build.steps},
                                                            {"percent", std::min(percent, kWhole)},
                                                            {"step", build.step}}},
                            {"cached", cached},
                            {"team", build.team},
                            {"owner", build.owner},
                            {"created_at", time_json(build.created_ms)},
                            {"started_at", time_json(build.started_ms)},
                            {"ended_at", time_json(build.ended_ms)},
                            {"reason", build.reason},
                            {"message", build.message}};
}

Result<void> add_argument(service::BuildOptions& options, std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == std::string_view::npos || name.empty() || name.size() > kNameBytesMax ||
      text.size() > kValueBytesMax || options.arguments.size() == kArgumentsMax) {
    return base::fail_field("arg", "'arg' must be NAME=VALUE, at most ", kArgumentsMax, " of them");
  }
  options.arguments[std::string(name)] = text.substr(equals + 1);
  return {};
}

Result<service::BuildOptions> parse_options(const Exchange& exchange) {
  service::BuildOptions options;
  ASSIGN_OR_RETURN(const auto parameters, exchange.request().parameters());
  for (const auto& [name, value] : parameters) {
    if (!base::is_utf8(value) || value.contains('\0')) {
      return base::fail_field(name, "'", name, "' is no text");
    }
    if (name == "arg") {
      RETURN_IF_ERROR(add_argument(options, value));
      continue;
    }
    if (value.size() > kNameBytesMax) {
      return base::fail_field(name, "'", name, "' is longer than ", kNameBytesMax, " bytes");
    }
    if (name == "dockerfile") {
      options.dockerfile = value;
    } else if (name == "target") {
      options.target = value;
    } else if (name == "platform") {
      if (value != kPlatform) {
        return base::fail_field("platform", "'platform' can only be ", kPlatform);
      }
    } else if (name != "team" && name != "wait") {
      auto error = base::fail(ErrorCode::unknown_field, "unknown query parameter '", name, "'");
      error.error().details.emplace_back("field", name);
      return error;
    }
  }
  return options;
}

// Of the two headers, each of which may be there once.
Result<service::BuildSecrets> parse_secrets(const Exchange& exchange) {
  const auto value = [&](std::string_view name) -> Result<std::string_view> {
    const auto& headers = exchange.request().headers;
    if (std::ranges::count(headers, name, &wire::http::Header::name) > 1) {
      return base::fail_field(name, "header '", name, "' is given twice");
    }
    const std::string* found = exchange.request().find(name);
    return found == nullptr ? std::string_view() : std::string_view(*found);
  };
  ASSIGN_OR_RETURN(const auto values, value("x-build-secrets"));
  ASSIGN_OR_RETURN(const auto keys, value("x-build-ssh"));
  return service::parse_build_secrets(values, keys);
}

// The context on its way from the client to a file: its own compression is taken off by what its
// bytes say, whatever headers call it.
class ContextSpool {
 public:
  ContextSpool(Application& application, base::Fd file)
      : application_(application), file_(std::move(file)) {}

  Task<Result<void>> take(Exchange& exchange, BodySource& body) {
    std::string head;
    while (head.size() < kMagicBytes) {
      CO_ASSIGN_OR_RETURN(const auto piece, co_await body.next(kBodyPatience));
      if (piece.empty()) {
        break;
      }
      head += piece;
    }
    if (head.empty()) {
      co_return base::fail(ErrorCode::archive_invalid, "the body is empty");
    }
    CO_ASSIGN_OR_RETURN(decoder_,
                        ContentDecoder::make(coding_of(head), service::BuildContext::kBytesMax));
    CO_RETURN_IF_ERROR(co_await decode(exchange, head));
    for (;;) {
      CO_ASSIGN_OR_RETURN(const auto piece, co_await body.next(kBodyPatience));
      if (piece.empty()) {
        break;
      }
      CO_RETURN_IF_ERROR(co_await decode(exchange, piece));
    }
    if (decoder_ != nullptr && !decoder_->finished()) {
      co_return base::fail(ErrorCode::archive_invalid, "the compressed context is not whole");
    }
    co_return Result<void>{};
  }

  // A context that holds the one file.
  Task<Result<void>> take_dockerfile(const std::string& name, const std::string& text) {
    wire::tar::Entry entry{.path = name, .mode = 0644, .size = text.size()};
    std::string archive;
    wire::tar::append_head(archive, entry);
    archive += text;
    archive.append(wire::tar::padding(text.size()) + wire::tar::kEndBytes, '\0');
    co_return co_await write(archive);
  }

  [[nodiscard]] service::BuildContext& context() { return context_; }
  Result<base::Fd> finish() {
    if (::lseek(file_.get(), 0, SEEK_SET) != 0) {
      return base::fail_errno(errno, "rewind the spooled context");
    }
    return std::move(file_);
  }

 private:
  static std::string_view coding_of(std::string_view head) {
    return head.starts_with("\x1f\x8b")           ? "gzip"
           : head.starts_with("\x28\xb5\x2f\xfd") ? "zstd"
                                                  : "";
  }
  Task<Result<void>> decode(Exchange& exchange, std::string_view piece) {
    if (decoder_ == nullptr) {
      co_return co_await write(piece);
    }
    for (;;) {
      auto next = [this, &piece] { return decoder_->next(piece); };
      const auto plain = co_await exchange.code(decoder_->given(), next);
      if (!plain && plain.error().code == ErrorCode::malformed) {
        co_return base::fail(ErrorCode::archive_invalid, "the context's compression is damaged");
      }
      CO_RETURN_IF_ERROR(plain);
      if (plain->empty() && piece.empty()) {
        co_return Result<void>{};
      }
      CO_RETURN_IF_ERROR(co_await write(*plain));
    }
  }
  Task<Result<void>> write(std::string_view plain) {
    auto put = [this, plain]() -> Result<void> {
      RETURN_IF_ERROR(context_.take(plain));
      return base::sys::write_all(file_.get(), plain);
    };
    const auto written = co_await application_.builds.pool().run(std::move(put));
    if (!written && written.error().errno_value == ENOSPC) {
      co_return base::fail(ErrorCode::disk_full, "the gateway's disk is full");
    }
    co_return written;
  }

  Application& application_;
  base::Fd file_;
  std::unique_ptr<ContentDecoder> decoder_;
  service::BuildContext context_;
};

bool is_dockerfile(const Exchange& exchange) {
  const std::string* type = exchange.request().find("content-type");
  return type != nullptr && base::lower(*type).starts_with("text/");
}

// A log as its bytes, to its end where it is followed.
Task<Result<void>> stream_log(Application& application, Exchange& exchange, std::string id,
                              uint64_t offset, bool follow, service::Builds::LogPiece piece) {
  auto head = exchange.start_head(200);
  head.add("content-type", "text/plain; charset=utf-8").add_chunked();
  exchange.mark_endless();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(head), 200));
  const ClientWatch watch(exchange.client(), [] {});
  net::HttpWriter writer(exchange.client(), kWritePatience);
  while (!watch.gone()) {
    if (!piece.text.empty()) {
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(piece.text));
      offset += piece.text.size();
    } else if (piece.ended || !follow) {
      co_return co_await writer.finish_chunks();
    } else {
      const auto wake = co_await application.loop.sleep_until(net::Deadline::after(kLogLook));
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return base::fail(ErrorCode::cancelled, "the gateway stops");
      }
    }
    CO_ASSIGN_OR_RETURN(piece, co_await application.builds.read_log(exchange.caller(), id, offset));
  }
  exchange.close_after();
  co_return Result<void>{};
}

}  // namespace

Task<Result<void>> create_build(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(const auto options, parse_options(exchange));
  CO_ASSIGN_OR_RETURN(auto secrets, parse_secrets(exchange));
  CO_ASSIGN_OR_RETURN(const int64_t seconds,
                      exchange.integer_parameter("wait", 0, kWaitSecondsMax, 0));
  CO_ASSIGN_OR_RETURN(const auto team, exchange.request().parameter("team"));
  if (team) {
    if (!exchange.caller().is_in(*team) || !application.teams.find(*team)) {
      co_return base::fail(ErrorCode::not_found, "team '", *team, "' does not exist");
    }
    exchange.enter_team(*team);
  }
  CO_RETURN_IF_ERROR(application.builds.check_allowed(exchange.caller()));
  CO_ASSIGN_OR_RETURN(auto file, application.builds.open_spool());
  ContextSpool spool(application, std::move(file));
  if (is_dockerfile(exchange)) {
    CO_ASSIGN_OR_RETURN(const auto text, co_await exchange.read_body(kDockerfileBytesMax));
    CO_RETURN_IF_ERROR(co_await spool.take_dockerfile(options.dockerfile, text));
  } else {
    CO_ASSIGN_OR_RETURN(auto body, BodySource::open(exchange));
    CO_RETURN_IF_ERROR(co_await spool.take(exchange, body));
  }
  CO_ASSIGN_OR_RETURN(auto digest, spool.context().finish(exchange.caller().team, options));
  exchange.note("digest", digest);
  CO_ASSIGN_OR_RETURN(auto context, spool.finish());
  CO_ASSIGN_OR_RETURN(
      auto started, co_await application.builds.start(exchange.caller(), options, std::move(digest),
                                                      std::move(context), std::move(secrets)));
  exchange.note("build", started.build.id);
  const bool cached = !started.fresh && started.build.state == "succeeded";
  if (seconds > 0) {
    CO_ASSIGN_OR_RETURN(started.build, co_await application.builds.wait(
                                           exchange.caller(), started.build.id,
                                           net::Deadline::after(std::chrono::seconds(seconds))));
  }
  co_return co_await exchange.answer_json(started.fresh ? 201 : 200,
                                          wire::json::serialize(build_json(started.build, cached)),
                                          {{"location", base::cat("/builds/", started.build.id)}});
}

Task<Result<void>> list_builds(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"state", "limit", "cursor", "team", "scope"}));
  service::Builds::Listed wanted;
  CO_ASSIGN_OR_RETURN(wanted.limit, exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const auto state, exchange.request().parameter("state"));
  CO_ASSIGN_OR_RETURN(const auto cursor, exchange.request().parameter("cursor"));
  CO_ASSIGN_OR_RETURN(wanted.team, exchange.request().parameter("team"));
  CO_ASSIGN_OR_RETURN(wanted.all_teams, scope_parameter(exchange));
  if (state && std::ranges::find(kStates, *state) == kStates.end()) {
    co_return base::fail_field("state", "'state' is none of a build's");
  }
  wanted.state = state.value_or("");
  wanted.cursor = cursor.value_or("");
  CO_ASSIGN_OR_RETURN(const auto page,
                      co_await application.builds.list(exchange.caller(), std::move(wanted)));
  wire::json::Array items;
  for (const service::BuildRow& build : page.items) {
    items.push_back(build_json(build, false));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), page.next_cursor));
}

Task<Result<void>> get_build(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"wait"}));
  CO_ASSIGN_OR_RETURN(const int64_t seconds,
                      exchange.integer_parameter("wait", 0, kWaitSecondsMax, 0));
  CO_ASSIGN_OR_RETURN(const auto build, co_await application.builds.wait(
                                            exchange.caller(), exchange.segment(0),
                                            net::Deadline::after(std::chrono::seconds(seconds))));
  co_return co_await exchange.answer_json(200, wire::json::serialize(build_json(build, false)));
}

Task<Result<void>> cancel_build(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("build", service::audit_text(exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(const auto build,
                      co_await application.builds.cancel(exchange.caller(), exchange.segment(0)));
  co_return co_await exchange.answer_json(202, wire::json::serialize(build_json(build, false)));
}

Task<Result<void>> build_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"follow", "offset"}));
  CO_ASSIGN_OR_RETURN(const bool follow, exchange.flag_parameter("follow"));
  CO_ASSIGN_OR_RETURN(const int64_t offset,
                      exchange.integer_parameter("offset", 0, int64_t{1} << 40, 0));
  const std::string& id = exchange.segment(0);
  CO_ASSIGN_OR_RETURN(auto piece, co_await application.builds.read_log(
                                      exchange.caller(), id, static_cast<uint64_t>(offset)));
  if (exchange.request().method == "HEAD") {
    co_return co_await exchange.answer_empty(200);
  }
  co_return co_await stream_log(application, exchange, id, static_cast<uint64_t>(offset), follow,
                                std::move(piece));
}

}  // namespace server
