#include "engine/engine_contract_testing.h"

#include <algorithm>
#include <cstdlib>

#include "wire/json.h"

namespace engine {
namespace {

using base::ErrorCode;
using net::Deadline;
using net::EventLoop;
using net::Task;

constexpr base::Milliseconds kPatience{20'000};
constexpr std::chrono::seconds kTestMax{60};

model::SandboxSpec spec_of(const std::string& id, const std::string& image) {
  model::SandboxSpec spec;
  spec.id = id;
  spec.containers.push_back({.image = image, .environment = {{"GREETING", "hello"}}});
  spec.resources = {.millicpus = 500, .memory_mb = 64, .storage_mb = 32, .pids = 64};
  return spec;
}

#define CO_ASSERT_TRUE(condition, result)                                              \
  if (!(condition)) {                                                                  \
    ADD_FAILURE() << #condition << ": " << ((result) ? "" : (result).error().message); \
    co_return;                                                                         \
  }

// Changes of all sandboxes until that one is in another state than starting.
Task<Result<Status>> settled(Engine& engine, Status status) {
  while (status.state == State::starting) {
    auto change = co_await engine.next_change();
    CO_RETURN_IF_ERROR(change);
    if (change->status.id == status.id) {
      status = change->status;
    }
  }
  co_return status;
}

Task<Result<Status>> create_settled(Engine& engine, model::SandboxSpec spec) {
  CO_ASSIGN_OR_RETURN(Status status, co_await engine.create(std::move(spec)));
  auto end = co_await settled(engine, std::move(status));
  co_return end;
}

// One request on a channel of its own or pooled; the body of the answer.
Task<Result<std::string>> ask_agent(Engine& engine, std::string id, std::string method,
                                    std::string target, std::string body) {
  CO_ASSIGN_OR_RETURN(auto connection, co_await engine.connect(id));
  net::HttpWriter writer(connection->stream, kPatience);
  std::string head =
      wire::http::HeadBuilder::request(method, target).add_length(body.size()).finish();
  CO_RETURN_IF_ERROR(co_await writer.write_message(std::move(head), body));
  CO_ASSIGN_OR_RETURN(const auto response, co_await connection->reader.read_response(
                                               method, Deadline::after(kPatience)));
  CO_ASSIGN_OR_RETURN(std::string answer,
                      co_await connection->reader.read_whole_body(1 << 20, kPatience));
  engine.give_back(std::move(id), std::move(connection));
  if (response.status != 200) {
    co_return base::fail(ErrorCode::agent_failed, "status ", response.status, ": ", answer);
  }
  co_return answer;
}

Task<Result<std::string>> echo(Engine& engine, std::string id) {
  CO_ASSIGN_OR_RETURN(const std::string answer,
                      co_await ask_agent(engine, std::move(id), "POST", "/run",
                                         R"({"argv":["echo","one","two"]})"));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(answer));
  wire::json::Reader reader(object);
  co_return reader.required<std::string>("stdout");
}

bool holds(const std::vector<Status>& list, const std::string& id) {
  return std::ranges::any_of(list, [&](const Status& status) { return status.id == id; });
}

}  // namespace

void run_task(EventLoop& loop, Task<void> task) {
  net::TaskGroup group(loop);
  group.spawn(std::move(task));
  const auto end = std::chrono::steady_clock::now() + kTestMax;
  while (group.size() > 0) {
    loop.run_once(base::Milliseconds(100));
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "the test does not end";
      std::abort();  // its coroutine cannot be taken apart midway
    }
  }
}

EngineContract::EngineContract() = default;
EngineContract::~EngineContract() = default;

void EngineContract::SetUp() {
  subject_ = GetParam()(why_);
  if (subject_ == nullptr) {
    GTEST_SKIP() << why_;
  }
}

void EngineContract::TearDown() {
  if (subject_ != nullptr) {
    run_task(subject_->loop(), subject_->close());
  }
}

void EngineContract::run(Task<void> task) { run_task(subject_->loop(), std::move(task)); }

namespace {

Task<void> create_and_list(Engine& engine, std::string image) {
  const auto status = co_await create_settled(engine, spec_of("c-create", image));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  EXPECT_FALSE(status->node.empty());
  EXPECT_TRUE(status->image_digest.starts_with("sha256:")) << status->image_digest;
  const auto found = co_await engine.get("c-create");
  CO_ASSERT_TRUE(found && found->state == State::ready, found);
  const auto list = co_await engine.list();
  CO_ASSERT_TRUE(list && holds(*list, "c-create"), list);
  const auto again = co_await engine.create(spec_of("c-create", image));
  CO_ASSERT_TRUE(again && again->state == State::ready, again);
  const auto same = co_await engine.list();
  CO_ASSERT_TRUE(same.has_value(), same);
  EXPECT_EQ(same->size(), list->size());
  const auto removed = co_await engine.remove("c-create");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, a_create_ends_ready_and_the_same_id_again_changes_nothing) {
  run(create_and_list(subject().engine(), subject().image()));
}

Task<void> unknown_ids(Engine& engine) {
  const auto found = co_await engine.get("c-absent");
  EXPECT_EQ(found ? ErrorCode::internal : found.error().code, ErrorCode::not_found);
  const auto removed = co_await engine.remove("c-absent");
  EXPECT_TRUE(removed.has_value());
  const auto network = co_await engine.set_network("c-absent", {.mode = model::NetworkMode::none});
  EXPECT_EQ(network ? ErrorCode::internal : network.error().code, ErrorCode::not_found);
  for (std::string id : {"c-absent", "../node", "", "a/b"}) {
    const auto connection = co_await engine.connect(id);
    EXPECT_EQ(connection ? ErrorCode::internal : connection.error().code, ErrorCode::not_found);
  }
}

TEST_P(EngineContract, unknown_ids_are_not_found_and_removing_them_is_fine) {
  run(unknown_ids(subject().engine()));
}

Task<void> use_agent(Engine& engine, std::string image) {
  const auto status = co_await create_settled(engine, spec_of("c-agent", image));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  for (int i = 0; i < 3; ++i) {
    const auto out = co_await echo(engine, "c-agent");
    CO_ASSERT_TRUE(out.has_value(), out);
    EXPECT_EQ(*out, "one two\n");
  }
  const auto health = co_await ask_agent(engine, "c-agent", "GET", "/healthz", "");
  CO_ASSERT_TRUE(health.has_value(), health);
  // Two at once are two channels.
  auto one = co_await engine.connect("c-agent");
  auto two = co_await engine.connect("c-agent");
  CO_ASSERT_TRUE(one && two, one);
  EXPECT_NE((*one)->stream.fd(), (*two)->stream.fd());
  const auto removed = co_await engine.remove("c-agent");
  CO_ASSERT_TRUE(removed.has_value(), removed);
  // A channel in use meets its end.
  const auto end = co_await (*one)->stream.wait_readable(Deadline::after(kPatience));
  EXPECT_TRUE(end.has_value());
}

TEST_P(EngineContract, channels_reach_the_agent_and_end_with_the_sandbox) {
  run(use_agent(subject().engine(), subject().image()));
}

Task<void> remove_all_of_it(Engine& engine, std::string image) {
  const auto status = co_await create_settled(engine, spec_of("c-remove", image));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  const auto out = co_await echo(engine, "c-remove");
  CO_ASSERT_TRUE(out.has_value(), out);
  const auto removed = co_await engine.remove("c-remove");
  CO_ASSERT_TRUE(removed.has_value(), removed);
  const auto found = co_await engine.get("c-remove");
  EXPECT_EQ(found ? ErrorCode::internal : found.error().code, ErrorCode::not_found);
  const auto list = co_await engine.list();
  CO_ASSERT_TRUE(list && !holds(*list, "c-remove"), list);
  // The pooled channel of before is of no use for the one that takes the id again.
  const auto connection = co_await engine.connect("c-remove");
  EXPECT_EQ(connection ? ErrorCode::internal : connection.error().code, ErrorCode::not_found);
  const auto anew = co_await create_settled(engine, spec_of("c-remove", image));
  CO_ASSERT_TRUE(anew && anew->state == State::ready, anew);
  const auto out_anew = co_await echo(engine, "c-remove");
  CO_ASSERT_TRUE(out_anew.has_value(), out_anew);
  const auto removed_anew = co_await engine.remove("c-remove");
  CO_ASSERT_TRUE(removed_anew.has_value(), removed_anew);
}

TEST_P(EngineContract, a_removed_sandbox_is_gone_and_its_id_free) {
  run(remove_all_of_it(subject().engine(), subject().image()));
}

Task<void> fail_to_pull(ContractSubject& subject) {
  Engine& engine = subject.engine();
  auto status = co_await engine.create(spec_of("c-pull", subject.absent_image()));
  CO_ASSERT_TRUE(status.has_value(), status);
  if (status->state == State::starting) {
    subject.let_pull_fail("c-pull");
  }
  const auto end = co_await settled(engine, std::move(*status));
  CO_ASSERT_TRUE(end && end->state == State::failed, end);
  EXPECT_TRUE(end->reason.starts_with("image_")) << end->reason;
  EXPECT_FALSE(end->message.empty());
  const auto found = co_await engine.get("c-pull");
  CO_ASSERT_TRUE(found && found->state == State::failed, found);
  EXPECT_EQ(found->reason, end->reason);
  const auto removed = co_await engine.remove("c-pull");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, an_image_that_cannot_be_had_ends_failed_with_a_reason) {
  run(fail_to_pull(subject()));
}

Task<void> lose_agent(ContractSubject& subject, bool& possible) {
  Engine& engine = subject.engine();
  const auto status = co_await create_settled(engine, spec_of("c-lost", subject.image()));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  possible = subject.kill_agent("c-lost");
  if (possible) {
    Status last = *status;
    while (last.state != State::failed) {
      const auto change = co_await engine.next_change();
      CO_ASSERT_TRUE(change.has_value(), change);
      if (change->status.id == last.id) {
        last = change->status;
      }
    }
    EXPECT_EQ(last.reason, "agent_lost");
    const auto found = co_await engine.get("c-lost");
    CO_ASSERT_TRUE(found && found->state == State::failed, found);
    const auto connection = co_await engine.connect("c-lost");
    EXPECT_EQ(connection ? ErrorCode::internal : connection.error().code, ErrorCode::not_found);
  }
  const auto removed = co_await engine.remove("c-lost");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, the_death_of_the_agent_is_told) {
  bool possible = false;
  run(lose_agent(subject(), possible));
  if (!possible) {
    GTEST_SKIP() << "this engine cannot be made to lose an agent";
  }
}

Task<void> set_networks(Engine& engine, std::string image) {
  auto spec = spec_of("c-net", image);
  spec.network.mode = model::NetworkMode::none;
  const auto status = co_await create_settled(engine, std::move(spec));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  const auto opened = co_await engine.set_network("c-net", {});
  CO_ASSERT_TRUE(opened.has_value(), opened);
  model::NetworkPolicy some{.mode = model::NetworkMode::allow,
                            .allow = {"192.0.2.0/24", "*.example.com"}};
  const auto restricted = co_await engine.set_network("c-net", std::move(some));
  CO_ASSERT_TRUE(restricted.has_value(), restricted);
  const auto removed = co_await engine.remove("c-net");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, the_network_of_a_ready_sandbox_can_be_changed) {
  run(set_networks(subject().engine(), subject().image()));
}

Task<void> create_one(Engine& engine, std::string id, std::string image, int& ready) {
  const auto status = co_await engine.create(spec_of(id, image));
  CO_ASSERT_TRUE(status.has_value(), status);
  if (status->state == State::ready) {
    ++ready;
  }
}

Task<void> remove_one(Engine& engine, std::string id) {
  const auto removed = co_await engine.remove(std::move(id));
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

Task<void> create_many(ContractSubject& subject) {
  constexpr int kMany = 12;
  Engine& engine = subject.engine();
  int ready = 0;
  net::TaskGroup creates(subject.loop());
  for (int i = 0; i < kMany; ++i) {
    creates.spawn(create_one(engine, base::cat("c-many-", i), subject.image(), ready));
  }
  co_await creates.join();
  for (int i = 0; i < kMany; ++i) {
    const auto out = co_await echo(engine, base::cat("c-many-", i));
    CO_ASSERT_TRUE(out.has_value(), out);
  }
  net::TaskGroup removes(subject.loop());
  for (int i = 0; i < kMany; ++i) {
    removes.spawn(remove_one(engine, base::cat("c-many-", i)));
  }
  co_await removes.join();
  const auto list = co_await engine.list();
  CO_ASSERT_TRUE(list && !holds(*list, "c-many-0"), list);
}

TEST_P(EngineContract, many_at_once_do_not_disturb_each_other) { run(create_many(subject())); }

Task<void> use_images(ContractSubject& subject) {
  Engine& engine = subject.engine();
  Images& images = engine.images();
  const auto absent = co_await images.get("c-absent:latest");
  EXPECT_EQ(absent ? ErrorCode::internal : absent.error().code, ErrorCode::not_found);
  const auto imported = co_await images.import("c-imported:latest", subject.tar());
  CO_ASSERT_TRUE(imported.has_value(), imported);
  EXPECT_EQ(imported->source, "import");
  EXPECT_TRUE(wire::json::parse_object(imported->config_json).has_value());
  const auto status = co_await create_settled(engine, spec_of("c-image", "c-imported:latest"));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  const auto used = co_await images.get("c-imported:latest");
  CO_ASSERT_TRUE(used && used->in_use, used);
  const auto refused = co_await images.remove("c-imported:latest");
  EXPECT_EQ(refused ? ErrorCode::internal : refused.error().code, ErrorCode::in_use);
  const auto removed = co_await engine.remove("c-image");
  CO_ASSERT_TRUE(removed.has_value(), removed);
  const auto deleted = co_await images.remove("c-imported:latest");
  CO_ASSERT_TRUE(deleted.has_value(), deleted);
  const auto list = co_await images.list();
  CO_ASSERT_TRUE(list.has_value(), list);
  EXPECT_FALSE(std::ranges::any_of(
      *list, [](const ImageInfo& image) { return image.name == "c-imported:latest"; }));
  const auto collected = co_await images.gc();
  CO_ASSERT_TRUE(collected.has_value(), collected);
  const auto pull = co_await images.pull_progress("c-absent");
  EXPECT_EQ(pull ? ErrorCode::internal : pull.error().code, ErrorCode::not_found);
}

TEST_P(EngineContract, images_are_imported_used_kept_while_used_and_removed) {
  run(use_images(subject()));
}

bool is_of(const Usage& usage, const std::string& id) { return usage.id == id; }

Task<void> ask_for_usage(ContractSubject& subject) {
  Engine& engine = subject.engine();
  const auto none = co_await engine.usage("c-nobody");
  EXPECT_EQ(none ? ErrorCode::internal : none.error().code, ErrorCode::not_found);
  const auto status = co_await create_settled(engine, spec_of("c-usage", subject.image()));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  const auto one = co_await engine.usage("c-usage");
  CO_ASSERT_TRUE(one && one->size() == 1 && is_of(one->front(), "c-usage"), one);
  EXPECT_GT(one->front().memory_bytes, 0);
  EXPECT_GE(one->front().pids, 1);
  const auto all = co_await engine.usage("");
  CO_ASSERT_TRUE(all.has_value(), all);
  EXPECT_EQ(std::ranges::count_if(*all, [](const Usage& usage) { return is_of(usage, "c-usage"); }),
            1);
  const auto removed = co_await engine.remove("c-usage");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, usage_is_told_of_one_and_of_all) { run(ask_for_usage(subject())); }

Task<void> interrupt_it(ContractSubject& subject, bool& possible) {
  Engine& engine = subject.engine();
  const auto status = co_await create_settled(engine, spec_of("c-away", subject.image()));
  CO_ASSERT_TRUE(status && status->state == State::ready, status);
  possible = subject.interrupt();
  if (possible) {
    Result<Change> change = co_await engine.next_change();
    while (change) {  // those of the create
      auto next = co_await engine.next_change();
      change = std::move(next);
    }
    EXPECT_EQ(change.error().code, ErrorCode::unavailable);
    const auto list = co_await engine.list();
    CO_ASSERT_TRUE(list && holds(*list, "c-away"), list);
    const auto checked = co_await engine.check();
    EXPECT_TRUE(checked.has_value());
    const auto out = co_await echo(engine, "c-away");
    CO_ASSERT_TRUE(out.has_value(), out);
  }
  const auto removed = co_await engine.remove("c-away");
  CO_ASSERT_TRUE(removed.has_value(), removed);
}

TEST_P(EngineContract, after_an_interruption_changes_count_as_missed_and_sandboxes_live_on) {
  bool possible = false;
  run(interrupt_it(subject(), possible));
  if (!possible) {
    GTEST_SKIP() << "this engine cannot be interrupted";
  }
}

Task<void> wait_for_change(Engine& engine, ErrorCode& end) {
  Result<Change> change = co_await engine.next_change();
  while (change) {
    auto next = co_await engine.next_change();
    change = std::move(next);
  }
  end = change.error().code;
}

Task<void> cancel_wait(ContractSubject& subject) {
  ErrorCode end = ErrorCode::internal;
  net::TaskGroup waiting(subject.loop());
  waiting.spawn(wait_for_change(subject.engine(), end));
  waiting.cancel();
  co_await waiting.join();
  EXPECT_EQ(end, ErrorCode::cancelled);
  const auto nodes = co_await subject.engine().nodes();
  CO_ASSERT_TRUE(nodes && nodes->size() == 1, nodes);
  EXPECT_GT(nodes->front().millicpus, 0);
  EXPECT_GT(nodes->front().memory_mb, 0);
  const auto checked = co_await subject.engine().check();
  CO_ASSERT_TRUE(checked.has_value(), checked);
}

TEST_P(EngineContract, a_wait_for_changes_can_be_given_up) { run(cancel_wait(subject())); }

}  // namespace
}  // namespace engine
