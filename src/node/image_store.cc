#include "node/image_store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "model/image_reference.h"

namespace node {
namespace {

namespace sys = base::sys;
using base::cat;
using base::ErrorCode;

constexpr size_t kRowBytesMax = 1 << 20;
constexpr mode_t kPrivate = 0700;
// A time of last use is for choosing what to remove, so minutes do not matter.
constexpr int64_t kUseNotedAfterMs = int64_t{10} * 60 * 1000;
constexpr std::string_view kEmptyFolder = "/empty";  // the only layer of an image that has none

void release(std::map<std::string, int>& counts, const std::string& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second <= 0) {
    counts.erase(found);
  }
}

}  // namespace

Result<std::unique_ptr<ImageStore>> ImageStore::open(const std::string& folder, base::Log& log) {
  std::unique_ptr<ImageStore> store(new ImageStore(folder, log));
  RETURN_IF_ERROR(sys::make_folders(folder, kPrivate));
  // The layers keep the images' ids and setuid programs, so nobody else may come near.
  if (::chmod(folder.c_str(), kPrivate) != 0) {
    return base::fail_errno(errno, "chmod ", folder);
  }
  for (const auto* name : {"/layers", "/index", "/jobs", "/empty"}) {
    RETURN_IF_ERROR(sys::make_folder(cat(folder, name), 0755));
  }
  RETURN_IF_ERROR(store->load());
  return store;
}

Result<void> ImageStore::load() {
  ASSIGN_OR_RETURN(const auto left, sys::list_folder(cat(folder_, "/jobs")));
  for (const auto& name : left) {
    trash_.push_back(cat(folder_, "/jobs/", name));
  }
  ASSIGN_OR_RETURN(const auto layers, sys::list_folder(cat(folder_, "/layers")));
  for (const auto& name : layers) {
    sizes_[cat("sha256:", name)] = 0;
  }
  ASSIGN_OR_RETURN(const auto files, sys::list_folder(cat(folder_, "/index")));
  for (const auto& file : files) {
    const std::string path = cat(folder_, "/index/", file);
    const auto text = sys::read_file(path, kRowBytesMax);
    auto image =
        text ? parse_stored_image(*text) : Result<StoredImage>(std::unexpected(text.error()));
    const bool whole = image && std::ranges::all_of(image->layers, [&](const auto& layer) {
                         return sizes_.contains(layer.diff_id);
                       });
    if (!whole) {
      log_.warning("image row dropped: damaged or without its layers", {{"file", file}});
      ::unlink(path.c_str());
      continue;
    }
    image->file = file;
    for (const auto& layer : image->layers) {
      sizes_[layer.diff_id] = layer.bytes;
    }
    images_[image->name] = std::move(*image);
  }
  return {};
}

std::string ImageStore::layer_folder(const std::string& diff_id) const {
  return cat(folder_, "/layers/", diff_id.substr(diff_id.find(':') + 1));
}

std::string ImageStore::diff_id_of(const std::string& layer_folder) const {
  return cat("sha256:", layer_folder.substr(layer_folder.rfind('/') + 1));
}

std::string ImageStore::index_file(const StoredImage& image) const {
  return cat(folder_, "/index/", image.file);
}

StoredImage* ImageStore::find(const std::string& name) {
  const auto found = images_.find(name);
  return found == images_.end() ? nullptr : &found->second;
}

const StoredImage* ImageStore::find_digest(const std::string& digest) const {
  const auto found = std::ranges::find_if(
      images_, [&](const auto& entry) { return entry.second.digest == digest; });
  return found == images_.end() ? nullptr : &found->second;
}

StoredImage* ImageStore::look_up(const std::string& name) {
  if (StoredImage* exact = find(name); exact != nullptr) {
    return exact;
  }
  const auto reference = model::parse_image_reference(name);
  return reference ? find(reference->normalised()) : nullptr;
}

Result<void> ImageStore::put(StoredImage image) {
  const StoredImage* old = find(image.name);
  if (old == nullptr && images_.size() >= kImagesMax) {
    return base::fail(ErrorCode::disk_full, "the image store holds ", kImagesMax, " images");
  }
  image.file = old != nullptr ? old->file : cat(base::new_id(random_, "image"), ".json");
  image.saved_used_ms = image.last_used_ms;
  RETURN_IF_ERROR(sys::replace_file(index_file(image), to_text(image), S_IRUSR | S_IWUSR));
  std::string name = image.name;
  images_.insert_or_assign(std::move(name), std::move(image));
  return {};
}

Result<void> ImageStore::remove(const std::string& name) {
  const StoredImage* image = find(name);
  if (image == nullptr) {
    return base::fail(ErrorCode::not_found, "image ", name, " is not in the store");
  }
  if (::unlink(index_file(*image).c_str()) != 0 && errno != ENOENT) {
    return base::fail_errno(errno, "remove the row of image ", name);
  }
  images_.erase(name);
  return {};
}

void ImageStore::note_use(StoredImage& image, int64_t now_ms) {
  image.last_used_ms = now_ms;
  if (now_ms - image.saved_used_ms > kUseNotedAfterMs) {
    image.saved_used_ms = now_ms;
    if (const auto saved = sys::replace_file(index_file(image), to_text(image), S_IRUSR | S_IWUSR);
        !saved) {
      log_.warning("time of use not saved",
                   {{"image", image.name}, {"error", saved.error().message}});
    }
  }
}

// Overlayfs refuses the same folder twice. Only the topmost of equal layers can be seen: applied
// again it says the same of every name it has.
ImageLayers ImageStore::layers_of(const StoredImage& image) const {
  ImageLayers out{.digest = image.digest, .config = image.config};
  std::set<std::string> seen;
  for (auto layer = image.layers.rbegin(); layer != image.layers.rend(); ++layer) {
    if (seen.insert(layer->diff_id).second) {
      out.folders.push_back(layer_folder(layer->diff_id));
    }
  }
  if (out.folders.empty()) {
    out.folders.push_back(cat(folder_, kEmptyFolder));
  }
  return out;
}

int64_t ImageStore::layer_bytes(const std::string& diff_id) const {
  const auto found = sizes_.find(diff_id);
  return found == sizes_.end() ? 0 : found->second;
}

Result<void> ImageStore::add_layer(const std::string& diff_id, const std::string& folder,
                                   int64_t bytes) {
  if (::rename(folder.c_str(), layer_folder(diff_id).c_str()) != 0) {
    return base::fail_errno(errno, "move layer ", diff_id, " into the store");
  }
  sizes_[diff_id] = bytes;
  return {};
}

void ImageStore::pin(const std::vector<std::string>& diff_ids) {
  for (const auto& id : diff_ids) {
    ++pins_[id];
  }
}

void ImageStore::unpin(const std::vector<std::string>& diff_ids) {
  for (const auto& id : diff_ids) {
    release(pins_, id);
  }
}

void ImageStore::hold(const ImageLayers& layers) {
  ++held_[layers.digest];
  for (const auto& folder : layers.folders) {
    ++pins_[diff_id_of(folder)];
  }
}

void ImageStore::unhold(const ImageLayers& layers) {
  release(held_, layers.digest);
  for (const auto& folder : layers.folders) {
    release(pins_, diff_id_of(folder));
  }
}

int64_t ImageStore::collect() {
  std::set<std::string> used;
  for (const auto& [name, image] : images_) {
    for (const auto& layer : image.layers) {
      used.insert(layer.diff_id);
    }
  }
  int64_t freed = 0;
  std::erase_if(sizes_, [&](const auto& entry) {
    if (used.contains(entry.first) || pins_.contains(entry.first)) {
      return false;
    }
    freed += entry.second;
    discard(layer_folder(entry.first));
    return true;
  });
  return freed;
}

Result<std::string> ImageStore::make_work_folder() {
  std::string path = cat(folder_, "/jobs/", base::new_id(random_, "job"));
  RETURN_IF_ERROR(sys::make_folder(path, 0755));
  return path;
}

void ImageStore::discard(const std::string& folder) {
  const std::string aside = cat(folder_, "/jobs/", base::new_id(random_, "trash"));
  if (::rename(folder.c_str(), aside.c_str()) == 0) {
    trash_.push_back(aside);
  } else if (errno != ENOENT) {
    log_.warning("folder not moved aside", {{"folder", folder}});
  }
}

}  // namespace node
