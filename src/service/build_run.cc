// One build, from the context in its builder to the image in the store. Each step can be done
// again: another process may have begun it.
#include <unistd.h>

#include <algorithm>

#include "base/fault.h"
#include "model/image_reference.h"
#include "service/build_names.h"
#include "service/builds.h"
#include "service/create_request.h"

namespace service {
namespace {

using base::cat;
using base::ErrorCode;
using base::Result;
using net::Task;
using wire::json::Object;

constexpr base::Milliseconds kAgentPatience{20'000};
// Parsing a Dockerfile in a builder whose cpus are busy.
constexpr base::Milliseconds kParsePatience{60'000};
constexpr base::Milliseconds kProgressLook{300};
constexpr base::Milliseconds kRetryPause{1'000};
constexpr int kRetriesMax = 300;  // of a node or a builder that does not answer
// Reading a base image: the sandbox it is read from waits for its pull.
constexpr base::Milliseconds kBaseLook{50};
constexpr base::Milliseconds kBasePatience{1'800'000};
constexpr uint64_t kImageBytesMax = uint64_t{32} << 30;
constexpr size_t kLogBytesMax = size_t{1} << 20;
constexpr int64_t kSessionLogBytes = int64_t{16} << 20;
constexpr size_t kMessageBytesMax = 2000;
constexpr size_t kReasonBytesMax = 64;
constexpr size_t kBasesMax = 64;
constexpr int kOk = 200;
constexpr int64_t kExitWithoutResult = 75;  // as in builder/build.go

bool is_passing(const base::Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::deadline_exceeded ||
         error.code == ErrorCode::connection_closed || error.code == ErrorCode::io;
}

std::string folder_of(const BuildRow& build) { return cat("/state/jobs/", build.id); }

std::unexpected<base::Error> failed(std::string reason, const std::string& message) {
  return std::unexpected(base::Error{.code = ErrorCode::agent_failed,
                                     .message = message,
                                     .details = {{"reason", std::move(reason)}}});
}

std::string reason_of(const base::Error& error) {
  for (const auto& [key, value] : error.details) {
    if (key == "reason") {
      return value;
    }
  }
  return error.code == ErrorCode::disk_full           ? "disk_full"
         : error.code == ErrorCode::image_not_allowed ? "image_not_allowed"
                                                      : "build_failed";
}

// A builder's word for why, kept to the form of ours.
std::string clean_reason(std::string_view text) {
  const bool fine =
      !text.empty() && text.size() <= kReasonBytesMax &&
      std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return fine ? std::string(text) : "build_failed";
}

// UTF-8 without NUL: what every store takes.
std::string clean_text(std::string text) {
  if (!base::is_utf8(text)) {
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) > 0x7f; }, '?');
  }
  std::ranges::replace(text, '\0', '?');
  return text;
}

std::string text_of(const Object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}
int64_t number_of(const Object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_int64() ? std::max<int64_t>(value->get_int64(), 0) : 0;
}

}  // namespace

Task<Result<bool>> Builds::tell(const BuildRow& build) {
  auto write = [this, &build] { return context_.store.update_build(build); };
  co_return co_await context_.pool.run(std::move(write));
}

Task<Result<bool>> Builds::is_under_way(const BuildRow& build) {
  auto read = [this, &build]() -> Result<bool> {
    ASSIGN_OR_RETURN(const auto row, context_.store.find_build(build.team, build.id));
    return row.state == "queued" || row.state == "running";
  };
  co_return co_await context_.pool.run(std::move(read));
}

Task<void> Builds::fail(BuildRow& build, std::string reason, std::string message) {
  build.state = "failed";
  build.reason = std::move(reason);
  build.message = clean_text(std::move(message)).substr(0, kMessageBytesMax);
  if (!base::is_utf8(build.message)) {  // cut inside a character
    build.message = clean_text(build.message);
  }
  build.ended_ms = context_.now_ms();
  co_await tell(build);
  changed_.notify();
}

Task<void> Builds::drive(BuildRow build) {
  for (int tries = 0;; ++tries) {
    const auto done = co_await run(build);
    if (!done && done.error().code == ErrorCode::cancelled) {
      co_return;  // this process stops; the build goes on
    }
    if (!done && is_passing(done.error()) && tries < kRetriesMax) {
      const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return;
      }
      continue;
    }
    if (!done) {
      co_await keep_log(build);
      const std::string reason = reason_of(done.error());
      if (reason == "disk_full" || reason == "out_of_memory" || reason == "build_timeout" ||
          reason == "builder_failed") {
        broken_.insert(build.builder);
      }
      context_.log.info("build failed", {{"build", build.id}, {"reason", reason}});
      co_await fail(build, reason, done.error().message);
    }
    break;
  }
  co_await clear(build);
  cancelled_.erase(build.id);
  driven_.erase(build.id);
}

Task<Result<void>> Builds::run(BuildRow& build) {
  auto found = co_await context_.engine.get(build.builder);
  if (!found && found.error().code == ErrorCode::not_found) {
    co_return failed("builder_lost", "the builder is gone");
  }
  CO_ASSIGN_OR_RETURN(const auto status, std::move(found));
  if (status.state == engine::State::failed || status.state == engine::State::gone) {
    co_return failed(status.reason == "out_of_memory" ? "out_of_memory" : "builder_lost",
                     cat("the builder ended: ", status.message));
  }
  BuilderAgent agent(context_, build.builder);
  CO_ASSIGN_OR_RETURN(const auto known,
                      co_await agent.ask("GET", cat("/sessions/", build.id), "", kAgentPatience));
  if (known.status != kOk) {
    CO_RETURN_IF_ERROR(co_await begin(build));
  }
  CO_RETURN_IF_ERROR(co_await follow(build));
  if (build.state == "cancelled") {
    co_await keep_log(build);
    co_return Result<void>{};
  }
  co_return co_await finish(build);
}

// Finds out which images it is built on, brings them to the builder, starts the session.
Task<Result<void>> Builds::begin(BuildRow& build) {
  BuilderAgent agent(context_, build.builder);
  const std::string folder = folder_of(build);
  CO_ASSIGN_OR_RETURN(const auto kept, co_await agent.ask("GET", file_target(folder + "/job.json"),
                                                          "", kAgentPatience));
  if (kept.status != kOk) {
    co_return failed("context_lost", "the builder has lost the context");
  }
  CO_ASSIGN_OR_RETURN(auto job, wire::json::parse_object(kept.body));
  const Object parse{{"argv", {"/bin/sandbox-builder", "bases", folder}}};
  CO_ASSIGN_OR_RETURN(
      const auto ran,
      co_await agent.ask_json("POST", "/run", wire::json::serialize(parse), kParsePatience));
  const auto told = wire::json::parse_object(text_of(ran, "stdout"));
  if (!told || number_of(ran, "exit_code") != 0) {
    co_return failed("build_failed",
                     cat("the Dockerfile cannot be read: ", text_of(ran, "stderr")));
  }
  if (told->contains("reason")) {
    co_return failed(clean_reason(text_of(*told, "reason")), text_of(*told, "message"));
  }
  wire::json::Reader reader(*told);
  CO_ASSIGN_OR_RETURN(const auto lines, reader.required<Object>("bases"));
  if (lines.size() > kBasesMax) {
    co_return failed("dockerfile_invalid", cat("more than ", kBasesMax, " base images"));
  }
  Object bases;
  for (const auto& base : lines) {
    const std::string name(base.key());
    const std::string where = cat("line ", number_of(lines, name), ": base image ", name);
    CO_RETURN_IF_ERROR(base::with_context(co_await fetch_base(build, name, bases), where));
  }
  base::fault_point("gateway.build.bases");
  job["bases"] = std::move(bases);
  CO_RETURN_IF_ERROR(co_await agent.ask_json("PUT", file_target(folder + "/job.json"),
                                             wire::json::serialize(job), kAgentPatience));
  const Object session{{"argv", {"/bin/sandbox-builder", "build", folder}},
                       {"name", build.id},
                       {"stdin", false},
                       {"timeout_sec", limits_.time_sec},
                       {"log_limit_bytes", kSessionLogBytes},
                       {"env", Object{{"PATH", "/bin"}, {"HOME", "/root"}}}};
  CO_RETURN_IF_ERROR(
      co_await agent.ask_json("POST", "/sessions", wire::json::serialize(session), kAgentPatience));
  base::fault_point("gateway.build.started");
  build.state = "running";
  build.started_ms = context_.now_ms();
  CO_RETURN_IF_ERROR(co_await tell(build));
  changed_.notify();
  co_return Result<void>{};
}

// The name that the engine knows it by, once the team may use it.
Task<Result<std::string>> Builds::base_image(const BuildRow& build, std::string name) {
  if (model::is_build_name(name)) {
    CO_RETURN_IF_ERROR(co_await check_image(build.team, name));
    co_return name;
  }
  CO_ASSIGN_OR_RETURN(const TeamPtr team, context_.teams.get(build.team));
  const auto reference = model::parse_image_reference(name);
  if (!reference) {
    co_return failed("dockerfile_invalid", reference.error().message);
  }
  CO_RETURN_IF_ERROR(check_image_allowed(*team, reference->normalised()));
  if (model::is_local_image_name(name)) {
    const auto local = co_await context_.engine.images().get(name);
    if (local) {
      co_return local->name;
    }
  }
  co_return reference->normalised();
}

// An image is read from a sandbox of it, which nothing runs in: pulled, checked and laid out as for
// every other sandbox.
Task<Result<void>> Builds::fetch_base(const BuildRow& build, std::string name, Object& bases) {
  CO_ASSIGN_OR_RETURN(const std::string image, co_await base_image(build, name));
  model::SandboxSpec spec;
  spec.id = base_of_build(build.id, image);
  spec.resources = {.millicpus = 1'000, .memory_mb = 256, .storage_mb = 64, .pids = 64};
  spec.network.mode = model::NetworkMode::none;
  CO_ASSIGN_OR_RETURN(spec.registry, registries_.access(build.team, image));
  model::ContainerSpec main;
  main.image = image;
  main.user = "0";
  spec.containers.push_back(std::move(main));
  const std::string sandbox = spec.id;
  auto created = co_await context_.engine.create(std::move(spec));
  const auto deadline = net::Deadline::after(kBasePatience);
  while (created && created->state == engine::State::starting) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kBaseLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the gateway stops");
    }
    if (std::chrono::steady_clock::now() > deadline.time()) {
      created = failed("image_pull_failed", "the pull takes too long");
    } else if (cancelled_.contains(build.id)) {
      created = failed("cancelled", "the build was cancelled");
    } else {
      created = co_await context_.engine.get(sandbox);
    }
  }
  Result<std::string> copied = base::fail(ErrorCode::internal);
  if (!created) {
    copied = std::unexpected(created.error());
  } else if (created->state != engine::State::ready) {
    copied = failed(created->reason, created->message);
  } else {
    copied = co_await copy_base(build, image, sandbox);
  }
  co_await context_.engine.remove(sandbox);
  CO_RETURN_IF_ERROR(copied);
  bases[name] = *copied;
  co_return Result<void>{};
}

// The name of its files in the builder, where they may be already.
Task<Result<std::string>> Builds::copy_base(const BuildRow& build, std::string image,
                                            std::string sandbox) {
  CO_ASSIGN_OR_RETURN(const auto info, co_await context_.engine.images().get(image));
  const std::string name = info.digest.substr(info.digest.find(':') + 1);
  const std::string files = cat("/state/bases/", name);
  BuilderAgent agent(context_, build.builder);
  CO_ASSIGN_OR_RETURN(const auto known,
                      co_await agent.ask("GET", file_target(files + ".json"), "", kAgentPatience));
  if (known.status == kOk) {
    co_return name;
  }
  BuilderAgent source(context_, sandbox);
  // Under a name of this build's own until it is whole: another one may bring the same.
  const std::string partial = cat(files, ".", build.id);
  CO_RETURN_IF_ERROR(co_await agent.put_from(file_target(partial), source,
                                             "/files?path=/&tar=1&one_file_system=1"));
  CO_RETURN_IF_ERROR(
      co_await agent.ask("POST",
                         cat("/files/move?path=", base::percent_encode(partial),
                             "&to=", base::percent_encode(files + ".tar"), "&overwrite=1"),
                         "", kAgentPatience));
  CO_RETURN_IF_ERROR(co_await agent.ask_json("PUT", file_target(files + ".json"), info.config_json,
                                             kAgentPatience));
  co_return name;
}

// Until its session has ended or somebody has ended it.
Task<Result<void>> Builds::follow(BuildRow& build) {
  BuilderAgent agent(context_, build.builder);
  BuildRow written;
  for (;;) {
    CO_ASSIGN_OR_RETURN(
        const auto session,
        co_await agent.ask_json("GET", cat("/sessions/", build.id), "", kAgentPatience));
    const bool ended = text_of(session, "state") == "exited";
    const auto* late = session.if_contains("timed_out");
    if (late != nullptr && late->is_bool() && late->get_bool()) {
      co_return failed("build_timeout",
                       cat("the build took longer than ", limits_.time_sec, " seconds"));
    }
    const auto progress = co_await agent.ask(
        "GET", file_target(folder_of(build) + "/progress.json"), "", kAgentPatience);
    if (progress && progress->status == kOk) {
      if (const auto told = wire::json::parse_object(progress->body)) {
        build.steps_done = number_of(*told, "done");
        build.steps = number_of(*told, "total");
        build.step = clean_text(text_of(*told, "step")).substr(0, kMessageBytesMax);
      }
    }
    build.state = "running";
    build.started_ms = build.started_ms == 0 ? context_.now_ms() : build.started_ms;
    const bool is_new = written.state != build.state || written.steps_done != build.steps_done ||
                        written.steps != build.steps || written.step != build.step;
    if (is_new) {
      CO_RETURN_IF_ERROR(co_await tell(build));
      written = build;
    }
    CO_ASSIGN_OR_RETURN(const bool goes_on, co_await is_under_way(build));
    if (!goes_on) {
      build.state = "cancelled";
      co_return Result<void>{};
    }
    if (ended) {
      co_return Result<void>{};
    }
    const auto wake = co_await changed_.wait(net::Deadline::after(kProgressLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the gateway stops");
    }
  }
}

// The image into the store, or why there is none.
Task<Result<void>> Builds::finish(BuildRow& build) {
  BuilderAgent agent(context_, build.builder);
  const std::string folder = folder_of(build);
  CO_ASSIGN_OR_RETURN(
      const auto kept,
      co_await agent.ask("GET", file_target(folder + "/result.json"), "", kAgentPatience));
  const auto result = wire::json::parse_object(kept.body);
  const auto* fine = kept.status == kOk && result ? result->if_contains("ok") : nullptr;
  if (fine == nullptr) {
    const auto session =
        co_await agent.ask_json("GET", cat("/sessions/", build.id), "", kAgentPatience);
    const bool is_full = session && number_of(*session, "exit_code") == kExitWithoutResult;
    co_return is_full ? failed("disk_full", "the builder's disk is full")
                      : failed("builder_failed", "the build ended without a result");
  }
  if (!fine->is_bool() || !fine->get_bool()) {
    co_return failed(clean_reason(text_of(*result, "reason")), text_of(*result, "message"));
  }
  CO_ASSIGN_OR_RETURN(base::Fd file, open_spool());
  CO_RETURN_IF_ERROR(co_await agent.get(file_target(folder + "/image.tar"), file, kImageBytesMax));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    co_return base::fail_errno(errno, "rewind the image");
  }
  base::fault_point("gateway.build.fetched");
  const std::string image = cat(model::kBuildNamePrefix, build.digest);
  CO_RETURN_IF_ERROR(base::with_context(
      co_await context_.engine.images().import(image, std::move(file)), "take the image over"));
  base::fault_point("gateway.build.imported");
  co_await keep_log(build);
  build.state = "succeeded";
  build.step.clear();
  build.ended_ms = context_.now_ms();
  CO_RETURN_IF_ERROR(co_await tell(build));
  base::fault_point("gateway.build.told");
  changed_.notify();
  context_.log.info("build succeeded", {{"build", build.id}, {"image", image}});
  co_return Result<void>{};
}

// The end of what the session wrote: that is where a failure is explained.
Task<void> Builds::keep_log(const BuildRow& build) {
  BuilderAgent agent(context_, build.builder);
  const std::string target = cat("/sessions/", build.id);
  const auto session = co_await agent.ask("GET", target, "", kAgentPatience);
  const auto object = session ? wire::json::parse_object(session->body)
                              : Result<Object>(std::unexpected(session.error()));
  const auto* log = object ? object->if_contains("log") : nullptr;
  if (log == nullptr || !log->is_object()) {
    co_return;
  }
  const int64_t end = number_of(log->get_object(), "end_offset");
  const int64_t from = std::max<int64_t>(end - static_cast<int64_t>(kLogBytesMax), 0);
  auto answer = co_await agent.ask("GET", cat(target, "/logs?offset=", from), "", kAgentPatience);
  if (!answer || answer->status != kOk) {
    co_return;
  }
  std::string text = clean_text(std::move(answer->body));
  auto write = [this, &build, &text] { return context_.store.put_build_log(build.id, text); };
  if (const auto written = co_await context_.pool.run(std::move(write)); !written) {
    context_.log.warning("the log of a build was not kept",
                         {{"build", build.id}, {"error", written.error().message}});
  }
}

// Its session with all that it runs, and its files, the secrets that no session has taken too.
Task<void> Builds::clear(const BuildRow& build) {
  BuilderAgent agent(context_, build.builder);
  co_await agent.ask("DELETE", cat("/sessions/", build.id), "", kAgentPatience);
  co_await agent.ask("DELETE", cat(file_target(folder_of(build)), "&recursive=1"), "",
                     kAgentPatience);
  co_await agent.ask("DELETE", file_target(secrets_of_build(build.id)), "", kAgentPatience);
}

}  // namespace service
