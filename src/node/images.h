// The images of this machine: an index in memory (and on disk) of layers laid out once each, and
// the pulls and imports under way. Owned by the node, loop thread only. Nothing of an image is
// parsed here: a job runs `sandbox-image` in namespaces and ids of its own and reads back small
// records that are checked again. Layer folders hold plain ids 0..65535 inside a 0700 folder.
// Concurrent pulls of one reference are one job. Bounds: kImagesMax images, kJobsRunningMax jobs
// at once, each with a time limit. Failures carry details.reason, one of the API's image_* reasons.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "model/sandbox.h"
#include "net/task.h"
#include "net/task_group.h"

namespace node {

using base::Result;

// What an image says of the processes started in it.
struct ImageConfig {
  model::EnvironmentMap environment;
  std::string workdir;  // "" is "/"
  std::string user;     // "user[:group]" or numbers, as the image wrote it; resolved by the agent
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> exposed_ports;  // "8080/tcp"
  std::string more_json = "{}";  // labels, health check and the like, which only builds go on with
};

// An image as a sandbox uses it.
struct ImageLayers {
  std::string digest;                // "sha256:..."
  std::vector<std::string> folders;  // absolute, topmost first, never empty
  ImageConfig config;
};

// A row of `GET /images`.
struct ImageRow {
  std::string name;
  std::string digest;
  int64_t size_bytes = 0;
  std::string platform;
  std::string source;  // registry | build | import
  int64_t created_ms = 0;
  int64_t last_used_ms = 0;
  bool in_use = false;
  ImageConfig config;
};

struct PullProgress {
  std::string state;  // running | succeeded | failed
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  int64_t layers_done = 0;
  int64_t layers = 0;
  std::string reason;
  std::string message;
  std::string name;  // the image's, when succeeded
};

struct ImageGcResult {
  int64_t freed_bytes = 0;
  std::vector<std::string> removed;
};

struct ImagesOptions {
  std::string lib_folder;    // images live in lib_folder/images
  std::string helper;        // path of sandbox-image
  uint32_t id_base = 0;      // the helper's own 65,536 host ids start here
  bool allow_local = false;  // whether "dir:/..." and "tar:/..." work
  std::string builder_root;  // the root file system of image builders; need not be there
  std::string name_prefix;   // of the nftables table that keeps the helper off link-local
  // Below so much free space on the images' file system unused images make room; 0: never.
  int free_percent_min = 10;
};

// ("pulling" | "pulled", message): an event of the sandbox that waits for the image.
using ImageEvent = std::function<void(std::string type, std::string message)>;

class Images {
 public:
  // Makes the folders, deletes what an earlier node left half-done, loads the index.
  static Result<std::unique_ptr<Images>> open(net::EventLoop& loop, ImagesOptions options,
                                              base::Clock& clock, base::Log& log);
  ~Images();  // stop() must have ended
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;

  // The image if it is here, whole, and may be used with this access; no disk is touched. `name`
  // is matched as a local name, as a "dir:"/"tar:" reference and as a normalised reference. An
  // image that was pulled with credentials needs the same ones, or a check by ensure().
  std::optional<ImageLayers> find(const std::string& name, const model::RegistryAccess& access);
  // find(), or a pull that may be shared with others who wait for the same image.
  net::Task<Result<ImageLayers>> ensure(std::string name, model::RegistryAccess access,
                                        bool always_pull, ImageEvent on_event);

  // The name of the image that builders run, whatever `allow_local` says. not_supported, with the
  // reason, where this host has none.
  Result<std::string> builder_image() const;
  const std::string& builder_root() const;

  // A pull that nobody has to wait for; the id for progress(), kept for kFinishedPullsMax pulls.
  Result<std::string> start_pull(const std::string& reference, const model::RegistryAccess& access);
  Result<PullProgress> progress(const std::string& pull) const;
  // A root file system tar (plain, gzip or zstd). Replaces the image of that name.
  net::Task<Result<ImageRow>> import(std::string name, base::Fd tar);

  std::vector<ImageRow> list() const;
  Result<ImageRow> get(const std::string& name) const;
  Result<void> remove(const std::string& name);  // not_found, in_use
  // Removes every image that no sandbox uses, and layers of no image.
  ImageGcResult gc();
  // Of those, least recently used first, the ones a registry or a build can give again, until all
  // images together are at most that large. An imported image is never removed unasked.
  ImageGcResult shrink(int64_t bytes_max);
  // shrink() by what the file system lacks of free_percent_min. Done by itself before each image
  // that is fetched and once a minute from collect_layers() on.
  ImageGcResult make_room();

  // A sandbox uses these layers (also again after a restart, before collect_layers()).
  void hold(const ImageLayers& layers);
  void unhold(const ImageLayers& layers);
  // Deletes layer folders that belong to no image and no sandbox. Call once the sandboxes that
  // survived a restart hold theirs.
  int64_t collect_layers();

  // Ends all jobs.
  net::Task<void> stop();
  // Behind it, where no sandbox is left: takes away what open() made in the host's firewall.
  base::Result<void> close();

 private:
  struct Image;
  struct Job;
  struct State;
  explicit Images(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace node
