#include "service/service_start.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

// An agent that is asked for news answers at a change, at the latest after this time.
constexpr int64_t kWaitSeconds = 20;
// Between two tries where an agent does not answer.
constexpr base::Milliseconds kRetryPause{200};
// How often it is looked whether anybody still waits.
constexpr base::Milliseconds kLook{2'000};

std::unexpected<base::Error> failed(std::string reason, const std::string& message) {
  auto error = base::fail(ErrorCode::internal, message);
  error.error().details.emplace_back("reason", std::move(reason));
  return error;
}

std::string octal(uint32_t mode) {
  std::array<char, 12> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), mode, 8).ptr;
  return {digits.begin(), end};
}

// "\n" and what it said, if anything.
std::string said(const std::string& output) {
  return output.empty() ? "" : base::cat(": ", base::trim(output));
}

}  // namespace

ServiceStart::ServiceStart(Context& context, std::string id,
                           std::vector<model::ContainerSpec> containers,
                           std::function<bool()> is_wanted)
    : context_(context),
      id_(std::move(id)),
      containers_(std::move(containers)),
      is_wanted_(std::move(is_wanted)),
      progress_(containers_.size()),
      changed_(context.loop) {}

const ServiceStart::Progress& ServiceStart::progress_of(const std::string& name) const {
  const auto found = std::ranges::find(containers_, name, &model::ContainerSpec::name);
  return progress_.at(static_cast<size_t>(found - containers_.begin()));
}

bool ServiceStart::is_next(size_t number) const {
  return std::ranges::all_of(
      containers_[number].service->depends_on, [this](const model::Dependency& dependency) {
        const Progress& other = progress_of(dependency.container);
        switch (dependency.condition) {
          case model::Condition::started:
            return other.started;
          case model::Condition::healthy:
            return other.started && other.status.health == "healthy";
          case model::Condition::completed:
            return other.status.state == "exited" && other.status.exit_code == 0;
        }
        return false;
      });
}

// The file's healthcheck, or the image's, which only the agent knows.
bool ServiceStart::must_be_healthy(size_t number) const {
  return progress_[number].status.health != "none";
}

bool ServiceStart::is_settled(size_t number) const {
  const Progress& progress = progress_[number];
  const std::string& state = progress.status.state;
  if (!progress.started || state == "restarting") {
    return false;
  }
  return state == "exited" || !must_be_healthy(number) || progress.status.health == "healthy";
}

Result<void> ServiceStart::find_failure() const {
  for (size_t i = 0; i < containers_.size(); ++i) {
    const Progress& progress = progress_[i];
    const ServiceStatus& status = progress.status;
    const std::string name = base::cat("service '", containers_[i].name, "'");
    if (!progress.failure.empty()) {
      return failed("start_failed", base::cat(name, ": ", progress.failure));
    }
    if (progress.started && status.health == "unhealthy") {
      return failed("start_failed", base::cat(name, " is unhealthy", said(status.check_output)));
    }
    for (const model::Dependency& dependency : containers_[i].service->depends_on) {
      const Progress& other = progress_of(dependency.container);
      if (dependency.condition == model::Condition::healthy && other.started &&
          other.status.health == "none") {
        return failed("start_failed", base::cat(name, " waits for '", dependency.container,
                                                "' to be healthy, but neither the file nor its "
                                                "image has a healthcheck"));
      }
    }
    if (!progress.started) {
      continue;
    }
    if (status.state == "idle" && i != 0) {
      return failed("start_failed", base::cat(name, " has no command, and its image has none"));
    }
    if (status.state == "exited" && (status.exit_code != 0 || must_be_healthy(i))) {
      const std::string code = status.exit_code ? base::cat(*status.exit_code) : "?";
      return failed("entrypoint_exited",
                    base::cat(name, " ended with code ", code, " before the sandbox was ready",
                              said(status.output)));
    }
  }
  return {};
}

AgentQuestion ServiceStart::next_question(size_t number) const {
  const Progress& progress = progress_[number];
  const auto& files = containers_[number].service->files;
  if (progress.started) {
    return {
        .target = base::cat("/service?version=", progress.status.version, "&wait=", kWaitSeconds),
        .patience = std::chrono::seconds(2 * kWaitSeconds)};
  }
  if (progress.files < files.size()) {
    const model::ServiceFile& file = files[progress.files];
    return {.method = "PUT",
            .target = base::cat("/files?user=root&path=", base::percent_encode(file.path),
                                "&mode=", octal(file.mode), "&owner=",
                                base::percent_encode(file.owner.empty() ? "0:0" : file.owner)),
            .body = file.content};
  }
  // Filling a volume takes its time.
  return {
      .method = "POST", .target = "/service/start", .patience = std::chrono::seconds(kWaitSeconds)};
}

// One service from its start on, for as long as anybody waits.
Task<void> ServiceStart::bring_up(size_t number) {
  net::Cancellation* const cancellation = co_await net::current_cancellation();
  const std::string address = engine::agent_address(id_, number);
  Progress& progress = progress_[number];
  while (!cancellation->requested() && is_wanted_()) {
    const bool is_file =
        !progress.started && progress.files < containers_[number].service->files.size();
    auto question = next_question(number);
    const auto answer = co_await ask_agent_json(context_, address, std::move(question));
    if (answer && is_file) {
      ++progress.files;
      continue;
    }
    auto status = answer ? parse_service_status(*answer)
                         : Result<ServiceStatus>(std::unexpected(answer.error()));
    if (status) {
      progress.status = std::move(*status);
      progress.started = true;
      changed_.notify();
      continue;
    }
    const auto& details = status.error().details;
    if (std::ranges::find(details, "status", &std::pair<std::string, std::string>::first) !=
        details.end()) {
      progress.failure = status.error().message;
      changed_.notify();
      co_return;
    }
    // Its end the engine tells.
    co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
  }
}

Task<Result<void>> ServiceStart::run() {
  net::Cancellation* const parent = co_await net::current_cancellation();
  Result<void> result = base::fail(ErrorCode::cancelled, "nobody waits for the services");
  net::TaskGroup group(context_.loop, parent);
  while (is_wanted_() && !parent->requested()) {
    for (size_t i = 0; i < containers_.size(); ++i) {
      if (!progress_[i].begun && is_next(i)) {
        progress_[i].begun = true;
        group.spawn(bring_up(i));
      }
    }
    auto failure = find_failure();
    bool all = true;
    for (size_t i = 0; i < containers_.size(); ++i) {
      all = all && is_settled(i);
    }
    if (!failure || all) {
      result = std::move(failure);
      break;
    }
    const auto wake = co_await changed_.wait(net::Deadline::after(kLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
  }
  group.cancel();
  co_await group.join();
  co_return result;
}

}  // namespace service
