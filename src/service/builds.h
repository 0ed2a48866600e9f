// Image builds: the use cases of /builds. A build is a session of its team's builder, a sandbox
// with the builder profile that no row of the store's stands for; it goes on whatever becomes of
// this process. What is promised stands in the store, what is built lies in the builder: any
// gateway on the store takes over what nobody drives any more. Owned by main; loop thread only;
// its children are joined by stop().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/task_group.h"
#include "service/build_context.h"
#include "service/build_secrets.h"
#include "service/builder_agent.h"
#include "service/caller.h"
#include "service/registries.h"

namespace service {

using BuildRow = store::Build;

// Limits of a builder and of what runs in it; the operator's.
struct BuildLimits {
  model::Resources resources{
      .millicpus = 2'000, .memory_mb = 4'096, .storage_mb = 16'384, .pids = 4'096};
  int64_t time_sec = 3'600;   // of one build
  int64_t under_way_max = 4;  // of one team
  int64_t idle_sec = 14'400;  // then the builder and its cache are removed
};

struct BuildStart {
  BuildRow build;
  bool fresh = true;  // false: known or under way, nothing was started
};

class Builds {
 public:
  Builds(Context& context, Registries& registries, std::string spool_folder, BuildLimits limits);

  // Whether the caller's team may build here: forbidden, not_supported.
  [[nodiscard]] base::Result<void> check_allowed(const Caller& caller) const;
  // An unnamed file for a context; it is gone when its descriptor is.
  [[nodiscard]] base::Result<base::Fd> open_spool() const;
  // `context`: the plain tar that `digest` was made of. Answers once the builder has it.
  // `secrets` count for a build that begins here, not for one that is known or under way.
  net::Task<base::Result<BuildStart>> start(Caller caller, BuildOptions options, std::string digest,
                                            base::Fd context, BuildSecrets secrets);
  net::Task<base::Result<BuildRow>> find(Caller caller, std::string id);
  // As find(), at the end of the build or of the time.
  net::Task<base::Result<BuildRow>> wait(Caller caller, std::string id, net::Deadline deadline);
  struct Listed {
    std::optional<std::string> team;  // else those of the caller, or all
    bool all_teams = false;
    std::string state;
    int64_t limit = 0;
    std::string cursor;
  };
  // Of the caller's teams; of others, where those are asked for too, without what a step or a
  // message says.
  net::Task<base::Result<store::Page<BuildRow>>> list(Caller caller, Listed wanted);
  // Ends it; an ended one is `conflict`.
  net::Task<base::Result<BuildRow>> cancel(Caller caller, std::string id);
  // What the log has from `offset` on, at most a megabyte, and whether the build has ended.
  struct LogPiece {
    std::string text;
    bool ended = false;
  };
  net::Task<base::Result<LogPiece>> read_log(Caller caller, std::string id, uint64_t offset);
  // not_found where the image was built for no team the caller is in.
  net::Task<base::Result<void>> check_image(std::string team, std::string image);

  void start_following();
  net::Task<void> stop();
  [[nodiscard]] net::BlockingPool& pool() { return context_.pool; }

 private:
  // The team's builder with its daemon running.
  net::Task<base::Result<void>> ensure_builder(std::string team);
  net::Task<bool> is_worn_out(std::string id);
  net::Task<base::Result<void>> create_builder(const Team& team, std::string id);
  net::Task<base::Result<void>> wait_ready(std::string id);
  net::Task<base::Result<void>> ensure_daemon(std::string id);
  // What a build is made from, all of it the request's.
  struct Given {
    BuildOptions options;
    base::Fd context;
    BuildSecrets secrets;
  };
  net::Task<base::Result<void>> send(const BuildRow& build, const Given& given);
  net::Task<base::Result<void>> give_to_builder(const BuildRow& build, const Given& given);
  net::Task<base::Result<std::optional<BuildRow>>> known(std::string team, std::string digest);

  // build_run.cc: one build from its context to its image.
  net::Task<void> drive(BuildRow build);
  net::Task<base::Result<void>> run(BuildRow& build);
  net::Task<base::Result<void>> begin(BuildRow& build);
  net::Task<base::Result<void>> follow(BuildRow& build);
  net::Task<base::Result<void>> finish(BuildRow& build);
  net::Task<base::Result<void>> fetch_base(const BuildRow& build, std::string name,
                                           wire::json::Object& bases);
  net::Task<base::Result<std::string>> base_image(const BuildRow& build, std::string name);
  net::Task<base::Result<std::string>> copy_base(const BuildRow& build, std::string image,
                                                 std::string sandbox);
  // Writes what the row says; false: somebody ended it.
  net::Task<base::Result<bool>> tell(const BuildRow& build);
  net::Task<base::Result<bool>> is_under_way(const BuildRow& build);
  net::Task<void> fail(BuildRow& build, std::string reason, std::string message);
  net::Task<void> keep_log(const BuildRow& build);
  net::Task<void> clear(const BuildRow& build);

  net::Task<void> look_after();
  net::Task<void> adopt();
  net::Task<void> remove_idle();

  Context& context_;
  Registries& registries_;
  std::string spool_folder_;
  BuildLimits limits_;
  std::string who_;               // names this process in claims
  std::set<std::string> driven_;  // builds
  std::set<std::string> broken_;  // builders to be made anew when nothing runs in them
  std::set<std::string> cancelled_;
  net::Event changed_;
  net::TaskGroup group_;
};

}  // namespace service
