#include "node/images.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <deque>

#include "base/random.h"
#include "base/sys.h"
#include "model/image_reference.h"
#include "node/doctor.h"
#include "node/image_firewall.h"
#include "node/image_job.h"
#include "node/image_store.h"

namespace node {
namespace {

namespace sys = base::sys;
using base::cat;
using base::Error;
using base::ErrorCode;

constexpr size_t kJobsRunningMax = 4;  // each unpacks on one core
constexpr size_t kJobsWaitingMax = 1000;
// Sandboxes fill the disk too, so the images' own arrival is not the only moment to look.
constexpr base::Milliseconds kRoomCheckInterval{60'000};
constexpr size_t kFinishedPullsMax = 256;  // kept for those who ask how it went

std::unexpected<Error> invalid(const Error& error) {
  return std::unexpected(Error(error).with("reason", "image_invalid"));
}

}  // namespace

// A pull or import under way, or one that ended lately.
struct Images::Job {
  Job(net::EventLoop& loop, std::string job_id) : id(std::move(job_id)), changed(loop) {}
  std::string id;
  std::string name;
  model::RegistryAccess access;
  PullProgress ended{.state = "running"};
  std::optional<Error> error;
  ImageJob* running = nullptr;
  net::Event changed;
};

struct Images::State {
  State(net::EventLoop& l, ImagesOptions o, base::Clock& c, base::Log& g)
      : loop(l),
        options(std::move(o)),
        clock(c),
        log(g),
        layers_changed(l),
        slot_free(l),
        claims{{}, layers_changed},
        group(l) {}

  std::shared_ptr<Job> add_job(const std::string& name, const model::RegistryAccess& access);
  Result<std::shared_ptr<Job>> start(JobRequest request, bool may_join);
  Result<std::shared_ptr<Job>> start_by_name(const std::string& name,
                                             const model::RegistryAccess& access);
  net::Task<void> run(std::shared_ptr<Job> job, JobRequest request);
  net::Task<Result<void>> run_in_turn(std::shared_ptr<Job> job, JobRequest request);
  net::Task<Result<void>> wait_for(std::shared_ptr<Job> job, ImageEvent on_event);
  net::Task<void> delete_trees(std::vector<std::string> paths);
  void empty_trash();
  int64_t collect();
  ImageRow row_of(const StoredImage& image) const;
  std::string builder_name() const { return cat("dir:", options.builder_root); }
  enum class Removable { all, pulled };
  ImageGcResult remove_unused(int64_t bytes_max, Removable which);
  ImageGcResult make_room();
  net::Task<void> keep_room();

  net::EventLoop& loop;
  ImagesOptions options;
  base::Clock& clock;
  base::Log& log;
  base::KernelRandom random;
  std::unique_ptr<ImageStore> store;
  net::Event layers_changed;
  net::Event slot_free;
  LayerClaims claims;
  size_t slots_used = 0;
  bool may_collect = false;  // once the sandboxes of an earlier node hold their layers
  std::map<std::string, std::shared_ptr<Job>> jobs;
  std::deque<std::string> finished;
  net::TaskGroup group;
};

std::shared_ptr<Images::Job> Images::State::add_job(const std::string& name,
                                                    const model::RegistryAccess& access) {
  auto job = std::make_shared<Job>(loop, base::new_id(random, "pull"));
  job->name = name;
  job->access = access;
  jobs[job->id] = job;
  return job;
}

Result<std::shared_ptr<Images::Job>> Images::State::start(JobRequest request, bool may_join) {
  const auto same = std::ranges::find_if(jobs, [&](const auto& entry) {
    const Job& job = *entry.second;
    return job.ended.state == "running" && job.name == request.name &&
           job.access.username == request.access.username &&
           job.access.password.reveal() == request.access.password.reveal() &&
           job.access.mirror == request.access.mirror &&
           job.access.plain_http == request.access.plain_http;
  });
  if (may_join && same != jobs.end()) {
    return same->second;
  }
  if (group.size() >= kJobsWaitingMax) {
    return base::fail(ErrorCode::overloaded, "too many image pulls are waiting");
  }
  auto job = add_job(request.name, request.access);
  group.spawn(run(job, std::move(request)));
  return job;
}

Result<std::shared_ptr<Images::Job>> Images::State::start_by_name(
    const std::string& name, const model::RegistryAccess& access) {
  if (model::is_local_image_path(name)) {
    if (!options.allow_local && name != builder_name()) {
      return base::fail_field("image",
                              "images from the node's disk (dir:, tar:) are not allowed here");
    }
    JobRequest request{.kind = name.substr(0, 3), .name = name};
    const std::string path = name.substr(4);
    const bool is_tar = request.kind == "tar";
    auto opened = sys::open(path, is_tar ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    struct stat info{};
    if (!opened || ::fstat(opened->get(), &info) != 0 || (is_tar && !S_ISREG(info.st_mode))) {
      return base::fail_field("image", name, is_tar ? " is no file" : " is no folder");
    }
    if (is_tar) {
      request.tar = std::move(*opened);
    } else {
      request.folder = path;
    }
    return start(std::move(request), true);
  }
  if (model::is_build_name(name)) {
    return std::unexpected(
        Error{.code = ErrorCode::not_found,
              .message = cat("the result of ", name, " is not here any more: build it again"),
              .details = {{"reason", "image_not_found"}}});
  }
  const auto reference = model::parse_image_reference(name);
  if (!reference) {
    return invalid(reference.error());
  }
  return start({.kind = "pull",
                .name = reference->normalised(),
                .reference = reference->normalised(),
                .access = access},
               true);
}

net::Task<void> Images::State::run(std::shared_ptr<Job> job, JobRequest request) {
  make_room();  // before it, not after: what just arrived is not used yet
  auto result = co_await run_in_turn(job, std::move(request));
  job->running = nullptr;
  job->ended.state = result ? "succeeded" : "failed";
  if (result) {
    job->ended.name = job->name;
    log.info("image ready", {{"image", job->name}});
  } else {
    for (const auto& [key, value] : result.error().details) {
      job->ended.reason = key == "reason" ? value : job->ended.reason;
    }
    job->ended.message = result.error().message;
    log.warning(
        "image failed",
        {{"image", job->name}, {"reason", job->ended.reason}, {"error", result.error().message}});
    job->error = std::move(result.error());
  }
  job->access = {};  // the credentials have done their work
  finished.push_back(job->id);
  if (finished.size() > kFinishedPullsMax) {
    jobs.erase(finished.front());
    finished.pop_front();
  }
  collect();
  job->changed.notify();
}

net::Task<Result<void>> Images::State::run_in_turn(std::shared_ptr<Job> job, JobRequest request) {
  while (slots_used >= kJobsRunningMax) {
    const auto wake = co_await slot_free.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the node is stopping");
    }
  }
  ++slots_used;
  ImageJob run(loop, options, *store, claims, clock, job->changed, std::move(request));
  job->running = &run;
  auto result = co_await run.run();
  job->ended = run.progress();
  job->ended.reason.clear();  // what it waited for is over
  job->ended.message.clear();
  job->running = nullptr;
  --slots_used;
  slot_free.notify();
  co_return result;
}

net::Task<Result<void>> Images::State::wait_for(std::shared_ptr<Job> job, ImageEvent on_event) {
  std::string told;
  while (job->ended.state == "running" || job->running != nullptr) {
    const std::string notice = job->running != nullptr ? job->running->progress().message : "";
    if (notice != told && !notice.empty() && on_event) {
      on_event("pulling", notice);
    }
    told = notice;
    const auto wake = co_await job->changed.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the wait for image ", job->name, " was given up");
    }
  }
  if (job->error) {
    co_return std::unexpected(*job->error);
  }
  co_return Result<void>();
}

// Deleting a tree takes a second and more, so a process of its own does it. It runs plainly: what
// an image put into the tree is only unlinked, never read or followed.
net::Task<void> Images::State::delete_trees(std::vector<std::string> paths) {
  std::vector<std::string> arguments = {options.helper, "--remove"};
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (auto& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  pid_t pid = -1;
  char* const no_environment[] = {nullptr};
  if (const int failed = ::posix_spawn(&pid, options.helper.c_str(), nullptr, nullptr,
                                       pointers.data(), no_environment);
      failed != 0) {
    log.warning("image folders not deleted", {{"errno", failed}});
    co_return;
  }
  const base::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process) {
    (void)co_await loop.wait(process.get(), net::EventLoop::Direction::read,
                             net::Deadline::never());
    loop.forget(process.get());
  }
  int status = 0;
  ::waitpid(pid, &status, process ? WNOHANG : 0);
}

void Images::State::empty_trash() {
  auto paths = store->take_trash();
  if (!paths.empty()) {
    group.spawn(delete_trees(std::move(paths)));
  }
}

int64_t Images::State::collect() {
  const int64_t freed = may_collect ? store->collect() : 0;
  empty_trash();
  return freed;
}

ImageRow Images::State::row_of(const StoredImage& image) const {
  return {.name = image.name,
          .digest = image.digest,
          .size_bytes = image.size_bytes(),
          .platform = image.platform,
          .source = image.source,
          .created_ms = image.created_ms,
          .last_used_ms = image.last_used_ms,
          .in_use = store->in_use(image),
          .config = image.config};
}

ImageGcResult Images::State::remove_unused(int64_t bytes_max, Removable which) {
  std::vector<const StoredImage*> candidates;
  int64_t total = 0;
  for (const auto& [name, image] : store->images()) {
    total += image.size_bytes();
    if (!store->in_use(image) && (which == Removable::all || image.source != "import")) {
      candidates.push_back(&image);
    }
  }
  std::ranges::sort(candidates, {}, &StoredImage::last_used_ms);
  ImageGcResult result;
  for (const StoredImage* image : candidates) {
    if (total <= bytes_max) {
      break;
    }
    const std::string name = image->name;
    total -= image->size_bytes();
    if (store->remove(name)) {
      result.removed.push_back(name);
    }
  }
  result.freed_bytes = collect();
  return result;
}

ImageGcResult Images::State::make_room() {
  struct statvfs disk{};
  constexpr int kAll = 100;
  if (options.free_percent_min <= 0 || !may_collect ||
      ::statvfs(cat(options.lib_folder, "/images").c_str(), &disk) != 0) {
    return {};
  }
  const auto block = static_cast<int64_t>(disk.f_frsize);
  const int64_t wanted =
      static_cast<int64_t>(disk.f_blocks) / kAll * options.free_percent_min * block;
  const int64_t lacking = wanted - (static_cast<int64_t>(disk.f_bavail) * block);
  if (lacking <= 0) {
    return {};
  }
  int64_t total = 0;
  for (const auto& [name, image] : store->images()) {
    total += image.size_bytes();
  }
  auto result = remove_unused(std::max<int64_t>(total - lacking, -1), Removable::pulled);
  for (const std::string& name : result.removed) {
    log.info("image removed to make room", {{"image", name}});
  }
  return result;
}

net::Task<void> Images::State::keep_room() {
  for (;;) {
    const auto wake = co_await loop.sleep_until(net::Deadline::after(kRoomCheckInterval));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    make_room();
  }
}

Images::Images(std::unique_ptr<State> state) : state_(std::move(state)) {}
Images::~Images() = default;

Result<std::unique_ptr<Images>> Images::open(net::EventLoop& loop, ImagesOptions options,
                                             base::Clock& clock, base::Log& log) {
  auto state = std::make_unique<State>(loop, std::move(options), clock, log);
  ASSIGN_OR_RETURN(state->store, ImageStore::open(cat(state->options.lib_folder, "/images"), log));
  if (const auto kept = keep_helper_local(state->options.name_prefix, state->options.id_base);
      !kept) {
    log.warning("the image helper is not kept off link-local addresses",
                {{"error", kept.error().message}});
  }
  state->empty_trash();
  return std::unique_ptr<Images>(new Images(std::move(state)));
}

Result<void> Images::close() { return forget_helper(state_->options.name_prefix); }

std::optional<ImageLayers> Images::find(const std::string& name,
                                        const model::RegistryAccess& access) {
  StoredImage* image = state_->store->look_up(name);
  if (image == nullptr || !image->may_use(access)) {
    return std::nullopt;
  }
  state_->store->note_use(*image, base::to_ms(state_->clock.wall()));
  return state_->store->layers_of(*image);
}

net::Task<Result<ImageLayers>> Images::ensure(std::string name, model::RegistryAccess access,
                                              bool always_pull, ImageEvent on_event) {
  const StoredImage* exact = state_->store->find(name);
  const bool is_import =
      exact != nullptr && exact->source != "registry" && !model::is_local_image_path(name);
  if (!always_pull || is_import) {
    if (auto found = find(name, access)) {
      co_return std::move(*found);
    }
  }
  CO_ASSIGN_OR_RETURN(const auto job, state_->start_by_name(name, access));
  if (on_event) {
    on_event("pulling", cat("pulling ", job->name));
  }
  CO_RETURN_IF_ERROR(co_await state_->wait_for(job, on_event));
  auto found = find(job->name, access);
  if (!found) {
    co_return base::fail(ErrorCode::unavailable, "image ", job->name, " was removed meanwhile");
  }
  if (on_event) {
    on_event("pulled", cat("pulled ", job->name, " (", found->digest, ")"));
  }
  co_return std::move(*found);
}

Result<std::string> Images::builder_image() const {
  if (const Check check = check_builder(builder_root()); !check.ok) {
    return base::fail(ErrorCode::not_supported, check.message);
  }
  return state_->builder_name();
}

const std::string& Images::builder_root() const { return state_->options.builder_root; }

Result<std::string> Images::start_pull(const std::string& reference,
                                       const model::RegistryAccess& access) {
  ASSIGN_OR_RETURN(const auto job, state_->start_by_name(reference, access));
  return job->id;
}

Result<PullProgress> Images::progress(const std::string& pull) const {
  const auto found = state_->jobs.find(pull);
  if (found == state_->jobs.end()) {
    return base::fail(ErrorCode::not_found, "pull ", pull, " is not known");
  }
  const Job& job = *found->second;
  PullProgress progress = job.running != nullptr ? job.running->progress() : job.ended;
  if (progress.state.empty()) {
    progress.state = "running";
  }
  return progress;
}

net::Task<Result<ImageRow>> Images::import(std::string name, base::Fd tar) {
  if (!model::is_local_image_name(name)) {
    co_return base::fail_field("name", "\"", name.substr(0, model::kLocalImageNameBytesMax),
                               "\" is no image name: lower-case parts joined by . _ - and /, at "
                               "most 200 bytes, and no registry");
  }
  struct stat info{};
  if (::fstat(tar.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    co_return base::fail(ErrorCode::archive_invalid, "the archive is no regular file");
  }
  CO_ASSIGN_OR_RETURN(const auto job,
                      state_->start({.kind = "tar", .name = name, .tar = std::move(tar)}, false));
  CO_RETURN_IF_ERROR(co_await state_->wait_for(job, {}));
  co_return get(name);
}

std::vector<ImageRow> Images::list() const {
  std::vector<ImageRow> rows;
  for (const auto& [name, image] : state_->store->images()) {
    rows.push_back(state_->row_of(image));
  }
  return rows;
}

Result<ImageRow> Images::get(const std::string& name) const {
  const StoredImage* image = state_->store->look_up(name);
  if (image == nullptr) {
    return base::fail(ErrorCode::not_found, "image ", name, " is not in the store");
  }
  return state_->row_of(*image);
}

Result<void> Images::remove(const std::string& name) {
  const StoredImage* image = state_->store->look_up(name);
  if (image == nullptr) {
    return base::fail(ErrorCode::not_found, "image ", name, " is not in the store");
  }
  if (state_->store->in_use(*image)) {
    return base::fail(ErrorCode::in_use, "image ", name, " is used by a sandbox");
  }
  RETURN_IF_ERROR(state_->store->remove(std::string(image->name)));
  state_->collect();
  return {};
}

ImageGcResult Images::gc() { return state_->remove_unused(-1, State::Removable::all); }
ImageGcResult Images::shrink(int64_t bytes_max) {
  return state_->remove_unused(bytes_max, State::Removable::pulled);
}
ImageGcResult Images::make_room() { return state_->make_room(); }

void Images::hold(const ImageLayers& layers) { state_->store->hold(layers); }
void Images::unhold(const ImageLayers& layers) { state_->store->unhold(layers); }

int64_t Images::collect_layers() {
  if (!state_->may_collect) {
    state_->may_collect = true;
    state_->group.spawn(state_->keep_room());
  }
  return state_->collect();
}

net::Task<void> Images::stop() {
  state_->group.cancel();
  co_await state_->group.join();
}

}  // namespace node
