// One run of the confined image helper, seen from the node: what it asks is answered from the
// store, what it finished is taken over. Its records are hostile: each is bounded and checked, and
// a broken one ends the job. Loop thread only; bounded by kJobTimeMax and kJobSilenceMax.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "node/image_store.h"

namespace jail {
class ConfinedProcess;
}

namespace node {

struct JobRequest {
  std::string kind;       // pull | tar | dir
  std::string name;       // of the image that is made
  std::string reference;  // of a pull, normalised
  model::RegistryAccess access;
  base::Fd tar;        // of tar
  std::string folder;  // of dir
};

// What all jobs share: layers that some job lays out now, and a bell for when that changes.
struct LayerClaims {
  std::set<std::string> claimed;
  net::Event& changed;
};

class ImageJob {
 public:
  ImageJob(net::EventLoop& loop, const ImagesOptions& options, ImageStore& store,
           LayerClaims& claims, base::Clock& clock, net::Event& changed, JobRequest request)
      : loop_(loop),
        options_(options),
        store_(store),
        claims_(claims),
        clock_(clock),
        changed_(changed),
        request_(std::move(request)) {}
  ImageJob(const ImageJob&) = delete;
  ImageJob& operator=(const ImageJob&) = delete;

  // Ends with the image in the store, or with an error that carries details.reason.
  net::Task<Result<void>> run();
  [[nodiscard]] const PullProgress& progress() const { return progress_; }

 private:
  net::Task<Result<void>> run_in(const std::string& work);
  net::Task<Result<void>> converse(base::Fd control);
  Result<void> send_request(const jail::ConfinedProcess& process, const std::string& work);
  Result<void> note_progress(const wire::json::Object& message);
  Result<std::string> answer_digest(const wire::json::Object& message);
  net::Task<Result<std::string>> answer_layers(wire::json::Object message);
  Result<void> mark_opaque(const wire::json::Object& message);
  Result<void> complete_implied(const wire::json::Object& message);
  Result<base::Fd> open_told_folder(const wire::json::Object& message, size_t& index,
                                    std::string& path) const;
  Result<void> take_layer(const wire::json::Object& message);
  Result<void> finish(const wire::json::Object& message);
  Result<std::string> layer_path(wire::json::Reader& reader, size_t& index) const;
  void release();

  net::EventLoop& loop_;
  const ImagesOptions& options_;
  ImageStore& store_;
  LayerClaims& claims_;
  base::Clock& clock_;
  net::Event& changed_;  // rung when it begins or ends to wait for the registry
  JobRequest request_;
  PullProgress progress_;
  std::string work_;
  std::vector<std::string> diff_ids_;  // once the helper named them; pinned
  std::set<std::string> mine_;         // claimed by this job
  std::vector<bool> missing_;
  bool done_ = false;
};

}  // namespace node
