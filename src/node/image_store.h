// What lies under lib/images: layers/<hex>, index/<id>.json, jobs/ (jobs, and what is being
// deleted). The memory of it is the truth while the node runs. Owned by Images, loop thread only.
// Changes are single renames, so what a crash leaves is whole or is in jobs/, which is emptied at
// the next start.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "node/image_index.h"

namespace node {

inline constexpr size_t kImagesMax = 10000;

class ImageStore {
 public:
  static Result<std::unique_ptr<ImageStore>> open(const std::string& folder, base::Log& log);

  // By the exact name.
  StoredImage* find(const std::string& name);
  const StoredImage* find_digest(const std::string& digest) const;
  // By a local name, a local path or any spelling of a reference.
  StoredImage* look_up(const std::string& name);
  [[nodiscard]] const std::map<std::string, StoredImage>& images() const { return images_; }
  // Adds or replaces, on disk first.
  Result<void> put(StoredImage image);
  Result<void> remove(const std::string& name);
  // Writes the time of use when what is on disk is old.
  void note_use(StoredImage& image, int64_t now_ms);

  [[nodiscard]] ImageLayers layers_of(const StoredImage& image) const;
  [[nodiscard]] bool has_layer(const std::string& diff_id) const {
    return sizes_.contains(diff_id);
  }
  [[nodiscard]] std::string layer_folder(const std::string& diff_id) const;
  [[nodiscard]] int64_t layer_bytes(const std::string& diff_id) const;
  // Takes a finished folder over.
  Result<void> add_layer(const std::string& diff_id, const std::string& folder, int64_t bytes);

  // Uses that keep layers from being collected.
  void pin(const std::vector<std::string>& diff_ids);
  void unpin(const std::vector<std::string>& diff_ids);
  void hold(const ImageLayers& layers);
  void unhold(const ImageLayers& layers);
  [[nodiscard]] bool in_use(const StoredImage& image) const { return held_.contains(image.digest); }

  // Moves the layers that nothing uses to jobs/; the bytes they hold.
  int64_t collect();

  Result<std::string> make_work_folder();
  // Moves a folder of jobs/ or layers/ out of sight; it is then among trash().
  void discard(const std::string& folder);
  // Paths to delete, once.
  std::vector<std::string> take_trash() { return std::exchange(trash_, {}); }

 private:
  ImageStore(std::string folder, base::Log& log) : folder_(std::move(folder)), log_(log) {}
  Result<void> load();
  [[nodiscard]] std::string index_file(const StoredImage& image) const;
  std::string diff_id_of(const std::string& layer_folder) const;

  std::string folder_;
  base::Log& log_;
  base::KernelRandom random_;
  std::map<std::string, StoredImage> images_;
  std::map<std::string, int64_t> sizes_;  // of the layers that are here
  std::map<std::string, int> pins_;       // by diff_id: jobs and sandboxes
  std::map<std::string, int> held_;       // by image digest: sandboxes
  std::vector<std::string> trash_;
};

}  // namespace node
