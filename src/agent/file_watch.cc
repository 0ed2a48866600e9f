#include "agent/file_watch.h"

#include <string>
#include <utility>

#include "agent/client_watch.h"
#include "agent/tree_watch.h"
#include "base/log.h"
#include "net/http.h"
#include "net/task_group.h"

namespace agent {
namespace {

constexpr base::Milliseconds kWritePatience{60'000};
constexpr base::Milliseconds kHeartbeat{15'000};

// Counts itself among the sandbox's watches.
class Place {
 public:
  explicit Place(size_t& count) : count_(count) { ++count_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { --count_; }

 private:
  size_t& count_;
};

void append_path(std::string& out, std::string_view name, const std::string& path) {
  out += base::cat(",\"", name, "\":");
  base::append_json_string(out, path.empty() ? "/" : path);
  if (!base::is_utf8(path)) {
    out += base::cat(",\"", name, "_encoded\":\"", base::percent_encode(path), '"');
  }
}

void append_event(std::string& out, const FileChange& change) {
  out += base::cat("event: change\ndata: {\"type\":\"", to_string(change.kind), '"');
  append_path(out, "path", change.path);
  if (change.kind == FileChange::Kind::moved) {
    append_path(out, "from", change.from);
  }
  out += base::cat(",\"is_directory\":", change.is_folder ? "true" : "false", "}\n\n");
}

net::Task<Result<void>> send_changes(net::Stream& client, TreeWatch& watch) {
  net::HttpWriter writer(client, kWritePatience);
  net::Event changed(client.loop());
  bool gone = false;
  const ClientWatch leaving(client, [&] {
    gone = true;
    changed.notify();
  });
  bool readable = false;
  const auto wait_readable = [&] {
    client.loop().watch(watch.fd(), net::EventLoop::Direction::read, [&] {
      readable = true;
      changed.notify();
    });
  };
  wait_readable();
  const std::string ready =
      base::cat("event: ready\ndata: {\"folders\":", watch.folders(), "}\n\n");
  CO_RETURN_IF_ERROR(co_await writer.write_chunk(ready));
  while (!gone) {
    if (!readable) {
      const auto wake = co_await changed.wait(net::Deadline::after(kHeartbeat));
      if (wake == net::EventLoop::Wake::cancelled) {
        break;
      }
      if (wake == net::EventLoop::Wake::deadline) {
        CO_RETURN_IF_ERROR(co_await writer.write_chunk(": keep-alive\n\n"));
      }
      continue;
    }
    readable = false;
    std::string text;
    bool ended = false;
    for (const FileChange& change : watch.take()) {
      append_event(text, change);
      ended = ended || change.kind == FileChange::Kind::gone;
    }
    if (!text.empty()) {
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(text));
    }
    if (ended) {
      co_return co_await writer.finish_chunks();
    }
    wait_readable();
  }
  co_return base::fail(ErrorCode::connection_closed, "the client has left");
}

}  // namespace

net::Task<Result<void>> watch_files(Agent& agent, net::Stream& client, FileRequest request) {
  if (agent.watches == kWatchesMax) {
    co_return base::fail(ErrorCode::overloaded, "the sandbox has ", kWatchesMax,
                         " watches already");
  }
  const Place place(agent.watches);
  TreeWatch watch(request);
  CO_RETURN_IF_ERROR(watch.begin());
  const std::string head = wire::http::HeadBuilder::response(200)
                               .add("content-type", "text/event-stream")
                               .add("cache-control", "no-store")
                               .add_chunked()
                               .finish();
  CO_RETURN_IF_ERROR(co_await client.write_all(head, kWritePatience));
  const auto sent = co_await send_changes(client, watch);
  client.loop().forget(watch.fd());
  co_return sent;
}

}  // namespace agent
