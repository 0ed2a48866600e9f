#include "image/job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sys.h"
#include "image/archive.h"
#include "image/confinement.h"
#include "image/digest.h"
#include "image/folder_copy.h"
#include "image/layer_writer.h"
#include "image/manifest.h"
#include "image/skopeo.h"

namespace image {
namespace {

namespace sys = base::sys;
using wire::json::Array;
using wire::json::Object;

constexpr const char* kBlobs = "/job/blobs";
constexpr const char* kAuthFile = "/run/auth.json";
constexpr int kIndexDepthMax = 4;  // an index in an index is seen, more is nonsense
constexpr std::string_view kPlatform = "linux/amd64";

struct Request {
  std::string kind;
  std::string repository;  // with the registry
  std::string host;
  std::string version;  // ":tag" or "@sha256:..."
  std::string mirror;
  bool mirror_plain_http = false;
  bool plain_http = false;
  bool has_credentials = false;
  LayerLimits budget;
};

Result<void> write_credentials(const std::string& host, const std::string& username,
                               const std::string& password) {
  // A lone token goes with any name at the registries that give them.
  const std::string name = username.empty() ? "token" : username;
  Object entry{{"auth", base::base64(cat(name, ":", password))}};
  Object hosts;
  hosts[host] = std::move(entry);
  ASSIGN_OR_RETURN(const Fd file, sys::open(kAuthFile, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return sys::write_all(file.get(), wire::json::serialize(Object{{"auths", std::move(hosts)}}));
}

Result<void> split_reference(const std::string& reference, Request& request) {
  const size_t slash = reference.find('/');
  std::string rest = reference;
  if (const size_t at = rest.find('@'); at != std::string::npos) {
    request.version = rest.substr(at);
    rest = rest.substr(0, at);
  }
  const size_t colon = rest.rfind(':');
  if (colon != std::string::npos && slash != std::string::npos && colon > slash) {
    if (request.version.empty()) {  // beside a digest the tag says nothing
      request.version = rest.substr(colon);
    }
    rest = rest.substr(0, colon);
  }
  if (slash == std::string::npos || request.version.empty()) {
    return fail_image(kInvalid, "\"", reference, "\" is no normalised reference");
  }
  request.repository = rest;
  request.host = rest.substr(0, slash);
  return {};
}

Result<Request> read_request(const Object& object) {
  wire::json::Reader reader(object);
  Request request;
  ASSIGN_OR_RETURN(request.kind, reader.required<std::string>("kind"));
  ASSIGN_OR_RETURN(request.budget.bytes_max, reader.required<int64_t>("bytes_max"));
  ASSIGN_OR_RETURN(request.budget.entries_max, reader.required<int64_t>("entries_max"));
  if (request.kind != "pull") {
    return request;
  }
  ASSIGN_OR_RETURN(const auto reference, reader.required<std::string>("reference"));
  RETURN_IF_ERROR(split_reference(reference, request));
  ASSIGN_OR_RETURN(request.mirror, reader.required<std::string>("mirror"));
  ASSIGN_OR_RETURN(request.plain_http, reader.required<bool>("plain_http"));
  constexpr std::string_view kPlain = "http://";
  request.mirror_plain_http = request.plain_http || request.mirror.starts_with(kPlain);
  if (request.mirror.starts_with(kPlain)) {
    request.mirror.erase(0, kPlain.size());
  }
  ASSIGN_OR_RETURN(const auto username, reader.required<std::string>("username"));
  ASSIGN_OR_RETURN(const auto password, reader.required<std::string>("password"));
  request.has_credentials = !username.empty() || !password.empty();
  if (request.has_credentials) {
    RETURN_IF_ERROR(write_credentials(request.host, username, password));
  }
  return request;
}

struct Resolved {
  RegistrySource source;
  std::string digest;  // of the image's manifest
  Manifest manifest;
};

class Job {
 public:
  Job(Channel& channel, Request request, Fd archive)
      : channel_(channel), request_(std::move(request)), archive_(std::move(archive)) {}

  Result<void> run() {
    if (request_.kind == "pull") {
      return pull();
    }
    RETURN_IF_ERROR(prepare_to_unpack());
    return import();
  }

 private:
  Result<void> pull();
  Result<Resolved> resolve(RegistrySource source);
  Result<Resolved> resolve_anywhere();
  Result<void> fetch(const Resolved& resolved);
  Result<void> unpack_image(const std::string& digest, const Manifest& manifest);
  Result<void> unpack_blob(size_t index, const Descriptor& layer, const std::string& diff_id);
  Result<void> import();
  Result<void> import_layout();
  Result<Fd> make_layer_folder(size_t index);
  Result<void> tell_folders(size_t index, std::string_view what,
                            const std::vector<std::string>& paths);
  Result<void> hand_over(size_t index, const LayerWriter& writer);
  Result<std::vector<bool>> ask_missing(const std::vector<std::string>& diff_ids);
  Result<void> tell_progress();
  void tell_notice(const std::string& notice);
  [[nodiscard]] RegistrySource origin() const;
  Result<void> tell_done(const std::string& digest, const std::vector<std::string>& diff_ids,
                         const Config& config);

  Channel& channel_;
  Request request_;
  Fd archive_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
  size_t layers_done_ = 0;
  size_t layers_ = 0;
  std::string notice_;
};

std::string blob_path(const std::string& digest) {
  return cat(kBlobs, "/", digest.substr(digest.find(':') + 1));
}

// Of an image, bounded and of that digest.
Result<std::string> read_blob(const std::string& digest, size_t bytes_max) {
  const auto bytes = sys::read_file(blob_path(digest), bytes_max);
  if (!bytes) {
    return fail_image(kInvalid, "the blob ", digest, " is missing or too large");
  }
  if (sha256_of(*bytes) != digest) {
    return fail_image(kDigestMismatch, "the blob ", digest, " is another one");
  }
  return *bytes;
}

int64_t bytes_in_blobs() {
  int64_t sum = 0;
  const auto names = sys::list_folder(kBlobs);
  for (const auto& name : names ? *names : std::vector<std::string>{}) {
    struct stat info{};
    if (::lstat(cat(kBlobs, "/", name).c_str(), &info) == 0) {
      sum += info.st_size;
    }
  }
  return sum;
}

Result<Resolved> Job::resolve(RegistrySource source) {
  const auto on_tick = [this](const std::string& notice) { tell_notice(notice); };
  std::string version = request_.version;
  for (int depth = 0; depth < kIndexDepthMax; ++depth) {
    ASSIGN_OR_RETURN(const std::string bytes, fetch_manifest(source, version, on_tick));
    const std::string digest = sha256_of(bytes);
    if (version.starts_with('@') && version.substr(1) != digest) {
      return fail_image(kDigestMismatch, "manifest ", version.substr(1), " has in fact the digest ",
                        digest);
    }
    ASSIGN_OR_RETURN(auto parsed, parse_manifest(bytes));
    if (parsed.manifest) {
      return Resolved{std::move(source), digest, std::move(*parsed.manifest)};
    }
    version = cat("@", parsed.chosen.digest);
  }
  return fail_image(kInvalid, "indexes inside indexes, more than ", kIndexDepthMax, " deep");
}

// The mirror first; credentials are for the registry itself only.
Result<Resolved> Job::resolve_anywhere() {
  for (const auto& [host, is_plain] : {std::pair(request_.mirror, request_.mirror_plain_http),
                                       std::pair(request_.host, request_.plain_http)}) {
    if (is_link_local(host) || (is_loopback(host) && !is_plain)) {
      return fail_image(kPullDenied, "registry ", host,
                        " is on this machine or link-local; loopback registries need the "
                        "operator's plain_http entry");
    }
  }
  const std::string path = request_.repository.substr(request_.host.size());
  if (!request_.mirror.empty()) {
    auto found = resolve({.repository = request_.mirror + path,
                          .plain_http = request_.mirror_plain_http,
                          .is_mirror = true});
    if (found) {
      return found;
    }
  }
  return resolve(origin());
}

RegistrySource Job::origin() const {
  return {.repository = request_.repository,
          .plain_http = request_.plain_http,
          .auth_file = request_.has_credentials ? kAuthFile : ""};
}

Result<void> Job::fetch(const Resolved& resolved) {
  const auto on_tick = [this](const std::string& notice) {
    notice_ = notice;
    done_bytes_ = std::min(bytes_in_blobs(), total_bytes_);
    (void)tell_progress();
  };
  for (const char* folder : {kBlobs, "/job/tmp"}) {
    RETURN_IF_ERROR(sys::make_folder(folder, 0777));
  }
  auto fetched = fetch_blobs(resolved.source, resolved.digest, kBlobs, on_tick);
  if (!fetched && resolved.source.is_mirror) {
    // A mirror may have the manifest and lack a layer. skopeo makes the folder anew.
    fetched = fetch_blobs(origin(), resolved.digest, kBlobs, on_tick);
  }
  return fetched;
}

void Job::tell_notice(const std::string& notice) {
  if (notice != notice_) {
    notice_ = notice;
    (void)tell_progress();
  }
}

Result<void> Job::pull() {
  ASSIGN_OR_RETURN(Resolved resolved, resolve_anywhere());
  RETURN_IF_ERROR(channel_.send({{"t", "digest"}, {"digest", resolved.digest}}));
  ASSIGN_OR_RETURN(const Object answer, channel_.receive());
  if (answer.contains("known") && answer.at("known").as_bool()) {
    return {};
  }
  const auto& layers = resolved.manifest.layers;
  layers_ = layers.size();
  for (const auto& layer : layers) {
    total_bytes_ += layer.size;
  }
  RETURN_IF_ERROR(tell_progress());
  RETURN_IF_ERROR(fetch(resolved));
  ::unlink(kAuthFile);
  RETURN_IF_ERROR(prepare_to_unpack());
  done_bytes_ = total_bytes_;
  return unpack_image(resolved.digest, resolved.manifest);
}

// The image whose blobs are all here.
Result<void> Job::unpack_image(const std::string& digest, const Manifest& manifest) {
  const auto& layers = manifest.layers;
  ASSIGN_OR_RETURN(const auto config_bytes, read_blob(manifest.config.digest, kConfigBytesMax));
  ASSIGN_OR_RETURN(const Config config, parse_config(config_bytes, layers.size()));
  ASSIGN_OR_RETURN(const auto missing, ask_missing(config.diff_ids));
  for (size_t i = 0; i < layers.size(); ++i) {
    if (missing[i]) {
      RETURN_IF_ERROR(unpack_blob(i, layers[i], config.diff_ids[i]));
    }
    ++layers_done_;
    RETURN_IF_ERROR(tell_progress());
  }
  return tell_done(digest, config.diff_ids, config);
}

Result<void> Job::unpack_blob(size_t index, const Descriptor& layer, const std::string& diff_id) {
  const std::string path = blob_path(layer.digest);
  const auto blob = sys::open(path, O_RDONLY | O_NOFOLLOW);
  if (!blob) {
    return fail_image(kInvalid, "the blob ", layer.digest, " is missing");
  }
  ASSIGN_OR_RETURN(Fd folder, make_layer_folder(index));
  LayerWriter writer(std::move(folder), request_.budget);
  const auto digests = unpack_archive(blob->get(), request_.budget, writer);
  if (!digests) {
    return base::with_context(Result<void>(std::unexpected(digests.error())),
                              cat("layer ", layer.digest));
  }
  if (digests->blob != layer.digest) {
    return fail_image(kDigestMismatch, "layer ", layer.digest, " has in fact the digest ",
                      digests->blob);
  }
  if (digests->content != diff_id) {
    return fail_image(kDigestMismatch, "layer ", layer.digest, " unpacks to ", digests->content,
                      " where the config says ", diff_id);
  }
  ::unlink(path.c_str());
  return hand_over(index, writer);
}

// An archive that was unpacked as a root file system and is in fact an OCI image layout (so are
// those of `docker save`): what an image needs is there, and all of it is plain files and folders.
bool is_image_layout(const std::string& folder) {
  const auto has = [&folder](const char* name, mode_t type) {
    struct stat info{};
    return ::lstat(cat(folder, "/", name).c_str(), &info) == 0 && (info.st_mode & S_IFMT) == type;
  };
  return has("oci-layout", S_IFREG) && has("index.json", S_IFREG) && has("blobs", S_IFDIR) &&
         has("blobs/sha256", S_IFDIR);
}

// A link or a pipe in the place of a blob would lead the reader elsewhere or nowhere.
Result<void> drop_what_is_no_file(const char* folder) {
  ASSIGN_OR_RETURN(const auto names, sys::list_folder(folder));
  for (const auto& name : names) {
    const std::string path = cat(folder, "/", name);
    struct stat info{};
    if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
      ::unlink(path.c_str());
    }
  }
  return {};
}

Result<void> Job::import_layout() {
  constexpr const char* kArchive = "/job/archive";
  if (::rename("/job/layer-0", kArchive) != 0 ||
      ::rename("/job/archive/blobs/sha256", kBlobs) != 0) {
    return base::fail_errno(errno, "set the archive aside");
  }
  RETURN_IF_ERROR(drop_what_is_no_file(kBlobs));
  ASSIGN_OR_RETURN(std::string bytes,
                   sys::read_file(cat(kArchive, "/index.json"), kManifestBytesMax));
  for (int depth = 0; depth < kIndexDepthMax; ++depth) {
    ASSIGN_OR_RETURN(const auto parsed, parse_manifest(bytes));
    if (parsed.manifest) {
      layers_ = parsed.manifest->layers.size();
      return unpack_image(sha256_of(bytes), *parsed.manifest);
    }
    ASSIGN_OR_RETURN(bytes, read_blob(parsed.chosen.digest, kManifestBytesMax));
  }
  return fail_image(kInvalid, "indexes inside indexes, more than ", kIndexDepthMax, " deep");
}

Result<void> Job::import() {
  layers_ = 1;
  ASSIGN_OR_RETURN(Fd folder, make_layer_folder(0));
  const LayerLimits budget = request_.budget;
  LayerWriter writer(std::move(folder), request_.budget);
  std::string digest;
  if (request_.kind == "dir") {
    ASSIGN_OR_RETURN(const Fd source, sys::open("/source", O_RDONLY | O_DIRECTORY));
    ASSIGN_OR_RETURN(digest, copy_folder(source.get(), writer));
  } else {
    ASSIGN_OR_RETURN(const auto digests, unpack_archive(archive_.get(), request_.budget, writer));
    digest = digests.content;
    if (is_image_layout("/job/layer-0")) {
      // What the archive took goes again, blob by blob, as the layers come.
      request_.budget = budget;
      return import_layout();
    }
  }
  ASSIGN_OR_RETURN(const auto missing, ask_missing({digest}));
  if (missing[0]) {
    RETURN_IF_ERROR(hand_over(0, writer));
  }
  return tell_done(digest, {digest}, {});
}

Result<Fd> Job::make_layer_folder(size_t index) {
  const std::string path = cat("/job/layer-", index);
  RETURN_IF_ERROR(sys::make_folder(path, 0755));
  return sys::open(path, O_RDONLY | O_DIRECTORY);
}

// On disk before the node shows it to anybody: an image is never half there after a power cut.
Result<void> Job::hand_over(size_t index, const LayerWriter& writer) {
  RETURN_IF_ERROR(tell_folders(index, "opaque", writer.opaque_folders()));
  RETURN_IF_ERROR(tell_folders(index, "implied", writer.implied_folders()));
  ASSIGN_OR_RETURN(const Fd work, sys::open("/job", O_RDONLY | O_DIRECTORY));
  ::syncfs(work.get());
  return channel_.send({{"t", "layer"}, {"layer", index}, {"bytes", writer.bytes()}});
}

Result<void> Job::tell_folders(size_t index, std::string_view what,
                               const std::vector<std::string>& paths) {
  for (const auto& path : paths) {
    RETURN_IF_ERROR(channel_.send({{"t", what}, {"layer", index}, {"path", base::base64(path)}}));
  }
  return {};
}

Result<std::vector<bool>> Job::ask_missing(const std::vector<std::string>& diff_ids) {
  RETURN_IF_ERROR(
      channel_.send({{"t", "layers"}, {"diff_ids", Array(diff_ids.begin(), diff_ids.end())}}));
  ASSIGN_OR_RETURN(const Object answer, channel_.receive());
  std::vector<bool> missing;
  for (const auto& value : answer.at("missing").as_array()) {
    missing.push_back(value.as_bool());
  }
  missing.resize(diff_ids.size());
  return missing;
}

Result<void> Job::tell_progress() {
  return channel_.send({{"t", "progress"},
                        {"done", done_bytes_},
                        {"total", total_bytes_},
                        {"layers_done", layers_done_},
                        {"layers", layers_},
                        {"notice", notice_}});
}

Result<void> Job::tell_done(const std::string& digest, const std::vector<std::string>& diff_ids,
                            const Config& config) {
  Object environment;
  for (const auto& [name, value] : config.environment) {
    environment[name] = value;
  }
  const auto list = [](const std::vector<std::string>& texts) {
    return Array(texts.begin(), texts.end());
  };
  return channel_.send({{"t", "done"},
                        {"digest", digest},
                        {"platform", kPlatform},
                        {"diff_ids", list(diff_ids)},
                        {"config",
                         {{"env", std::move(environment)},
                          {"workdir", config.workdir},
                          {"user", config.user},
                          {"entrypoint", list(config.entrypoint)},
                          {"cmd", list(config.cmd)},
                          {"exposed_ports", list(config.exposed_ports)},
                          {"more", config.more_json}}}});
}

Result<void> serve(Channel& channel) {
  ASSIGN_OR_RETURN(auto descriptors, channel.receive_descriptors());
  ASSIGN_OR_RETURN(const Object message, channel.receive());
  if (descriptors.empty()) {
    return base::fail(ErrorCode::internal, "the node sent no work folder");
  }
  const bool is_folder = message.contains("kind") && message.at("kind") == "dir";
  Fd source = descriptors.size() > 1 ? std::move(descriptors[1]) : Fd();
  Fd folder = is_folder ? std::exchange(source, Fd()) : Fd();
  RETURN_IF_ERROR(confine(std::move(descriptors[0]), std::move(folder)));
  ASSIGN_OR_RETURN(Request request, read_request(message));
  return Job(channel, std::move(request), std::move(source)).run();
}

// Names in archives are bytes; the node reads text.
std::string as_text(std::string message) {
  if (!base::is_utf8(message)) {
    std::ranges::replace_if(
        message, [](char c) { return static_cast<unsigned char>(c) > 0x7f; }, '?');
  }
  return message;
}

}  // namespace

bool run_job(Channel& channel) {
  const auto done = serve(channel);
  if (done) {
    return true;
  }
  (void)channel.send({{"t", "failed"},
                      {"reason", reason_of(done.error())},
                      {"message", as_text(done.error().message)}});
  return false;
}

}  // namespace image
