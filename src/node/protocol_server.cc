#include "node/protocol_server.h"

#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>

#include "wire/container_json.h"

namespace node {
namespace {

using base::ErrorCode;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;

constexpr size_t kConnectionsMax = 64;  // gateways, tools and tests of one machine
constexpr int64_t kMegabyte = 1'048'576;
constexpr int64_t kMillicpusPerCpu = 1'000;

// The one text field that most operations have.
Result<std::string> only_text(const Object& fields, std::string_view name) {
  Reader reader(fields);
  ASSIGN_OR_RETURN(auto value, reader.required<std::string>(name));
  RETURN_IF_ERROR(reader.finish());
  return value;
}

template <typename Rows>
Array to_array(const Rows& rows) {
  Array array;
  for (const auto& row : rows) {
    array.emplace_back(to_json(row));
  }
  return array;
}

}  // namespace

HostSize read_host_size(int64_t storage_mb) {
  HostSize host{.storage_mb = storage_mb};
  utsname names{};
  if (::uname(&names) == 0) {
    host.name = static_cast<const char*>(names.nodename);
  }
  host.millicpus = ::sysconf(_SC_NPROCESSORS_ONLN) * kMillicpusPerCpu;
  struct sysinfo memory{};
  if (::sysinfo(&memory) == 0) {
    host.memory_mb = static_cast<int64_t>(memory.totalram * memory.mem_unit) / kMegabyte;
  }
  return host;
}

ProtocolServer::ProtocolServer(net::EventLoop& loop, base::Fd socket, Supervisor& supervisor,
                               Images& images, const Network& network, HostSize host,
                               base::Log& log)
    : loop_(loop),
      supervisor_(supervisor),
      network_(network),
      images_(images),
      host_(std::move(host)),
      log_(log),
      listener_(loop, std::move(socket)),
      group_(loop) {
  supervisor_.set_listener([this](const Change& change) { broadcast(change); });
}

void ProtocolServer::run() { group_.spawn(accept_all()); }

net::Task<void> ProtocolServer::stop() {
  group_.cancel();
  co_await group_.join();
  supervisor_.set_listener({});
  connections_.clear();
}

net::Task<void> ProtocolServer::accept_all() {
  for (;;) {
    auto accepted = co_await listener_.accept();
    if (!accepted) {
      if (accepted.error().code != ErrorCode::cancelled) {
        log_.error("cannot accept connections", {{"error", accepted.error().message}});
      }
      co_return;
    }
    if (connections_.size() >= kConnectionsMax) {
      log_.warning("too many connections");
      continue;  // closes it
    }
    const auto connection = std::make_shared<Connection>(loop_, std::move(*accepted));
    connections_.push_back(connection);
    group_.spawn(serve(connection));
  }
}

net::Task<void> ProtocolServer::serve(ConnectionPointer connection) {
  for (;;) {
    // Gateways keep the connection for as long as they live.
    auto line = co_await connection->lines.read(net::Deadline::never());
    if (!line || !*line) {
      break;
    }
    group_.spawn(answer(connection, std::move(**line)));
  }
  connection->lines.close();
  connections_.remove(connection);
}

net::Task<void> ProtocolServer::answer(ConnectionPointer connection, net::JsonLines::Line line) {
  Object reply{{"seq", line.object["seq"]}};
  line.object.erase("seq");
  line.object.erase("fds");
  const auto* const operation = line.object.if_contains("op");
  Answer result = base::fail(ErrorCode::missing_field, "op is missing");
  std::vector<base::Fd> fds;
  if (operation != nullptr && operation->is_string()) {
    std::string name(operation->get_string());
    line.object.erase("op");
    if (name == "gateway_socket") {
      result = open_gateway_socket(line.object, fds);
    } else {
      auto called =
          co_await call(connection, std::move(name), std::move(line.object), std::move(line.fds));
      result = std::move(called);
    }
  }
  if (result) {
    reply["ok"] = std::move(*result);
  } else {
    reply["error"] = error_to_json(result.error());
  }
  send(*connection, std::move(reply), std::move(fds));
}

ProtocolServer::Answer ProtocolServer::open_gateway_socket(const Object& fields,
                                                           std::vector<base::Fd>& fds) const {
  RETURN_IF_ERROR(Reader(fields).finish());
  ASSIGN_OR_RETURN(auto socket, network_.open_gateway_socket());
  fds.push_back(std::move(socket));
  return Object{};
}

void ProtocolServer::send(Connection& connection, Object object, std::vector<base::Fd> fds) {
  if (!connection.lines.is_open()) {
    return;
  }
  if (const auto sent = connection.lines.send(std::move(object), std::move(fds)); !sent) {
    log_.warning("dropped a connection", {{"error", sent.error().message}});
    // The reader meets the end and closes; closing here would pull the socket from under it.
    ::shutdown(connection.lines.fd(), SHUT_RDWR);
  }
}

void ProtocolServer::broadcast(const Change& change) {
  for (const ConnectionPointer& connection : connections_) {
    if (connection->watching) {
      send(*connection, Object{{"event", to_json(change)}});
    }
  }
}

ProtocolServer::Answer ProtocolServer::hello() const {
  return Object{{"version", SANDBOX_VERSION},
                {"node", host_.name},
                {"millicpus", host_.millicpus},
                {"memory_mb", host_.memory_mb},
                {"storage_mb", host_.storage_mb},
                {"sandboxes", static_cast<int64_t>(supervisor_.list().size())}};
}

net::Task<ProtocolServer::Answer> ProtocolServer::call(ConnectionPointer connection,
                                                       std::string operation, Object fields,
                                                       std::vector<base::Fd> fds) {
  if (operation == "hello") {
    co_return hello();
  }
  if (operation == "watch") {
    connection->watching = true;
    co_return Object{};
  }
  if (operation == "doctor") {
    co_return Object{{"checks", to_array(run_doctor(images_.builder_root()))}};
  }
  if (operation.starts_with("image_")) {
    auto answered = co_await call_images(std::move(operation), std::move(fields), std::move(fds));
    co_return answered;
  }
  auto answered = co_await call_sandboxes(std::move(operation), std::move(fields));
  co_return answered;
}

net::Task<ProtocolServer::Answer> ProtocolServer::call_sandboxes(std::string operation,
                                                                 Object fields) {
  if (operation == "create") {
    Reader reader(fields);
    CO_ASSIGN_OR_RETURN(const auto object, reader.required<Object>("spec"));
    CO_RETURN_IF_ERROR(reader.finish());
    CO_ASSIGN_OR_RETURN(auto spec, parse_spec(object));
    auto created = co_await supervisor_.create(std::move(spec));
    CO_ASSIGN_OR_RETURN(const Status status, std::move(created));
    co_return to_json(status);
  }
  if (operation == "list") {
    co_return Object{{"sandboxes", to_array(supervisor_.list())}};
  }
  if (operation == "get") {
    CO_ASSIGN_OR_RETURN(const auto id, only_text(fields, "id"));
    CO_ASSIGN_OR_RETURN(const Status status, supervisor_.get(id));
    co_return to_json(status);
  }
  if (operation == "stats") {
    Reader reader(fields);
    CO_ASSIGN_OR_RETURN(const auto id, reader.optional<std::string>("id"));
    CO_ASSIGN_OR_RETURN(const auto after, reader.optional<std::string>("after"));
    CO_RETURN_IF_ERROR(reader.finish());
    if (!id) {
      co_return Object{{"sandboxes", to_array(supervisor_.usage_after(after.value_or("")))}};
    }
    CO_ASSIGN_OR_RETURN(const Usage usage, supervisor_.usage_of(*id));
    co_return Object{{"sandboxes", Array{to_json(usage)}}};
  }
  if (operation == "remove") {
    CO_ASSIGN_OR_RETURN(auto id, only_text(fields, "id"));
    auto removed = co_await supervisor_.remove(std::move(id));
    CO_RETURN_IF_ERROR(std::move(removed));
    co_return Object{};
  }
  if (operation == "set_network") {
    Reader reader(fields);
    CO_ASSIGN_OR_RETURN(const auto id, reader.required<std::string>("id"));
    CO_ASSIGN_OR_RETURN(const auto network, reader.required<std::string>("network"));
    CO_RETURN_IF_ERROR(reader.finish());
    CO_ASSIGN_OR_RETURN(auto policy, model::parse_network_policy(network));
    CO_RETURN_IF_ERROR(supervisor_.set_network(id, std::move(policy)));
    co_return Object{};
  }
  co_return base::fail(ErrorCode::not_supported, "no operation ", operation);
}

net::Task<ProtocolServer::Answer> ProtocolServer::call_images(std::string operation, Object fields,
                                                              std::vector<base::Fd> fds) {
  if (operation == "image_list") {
    co_return Object{{"images", to_array(images_.list())}};
  }
  if (operation == "image_get") {
    CO_ASSIGN_OR_RETURN(const auto name, only_text(fields, "name"));
    CO_ASSIGN_OR_RETURN(const ImageRow row, images_.get(name));
    co_return to_json(row);
  }
  if (operation == "image_remove") {
    CO_ASSIGN_OR_RETURN(const auto name, only_text(fields, "name"));
    CO_RETURN_IF_ERROR(images_.remove(name));
    co_return Object{};
  }
  if (operation == "image_pull") {
    Reader reader(fields);
    CO_ASSIGN_OR_RETURN(const auto reference, reader.required<std::string>("reference"));
    CO_ASSIGN_OR_RETURN(const auto registry, reader.optional<Object>("registry"));
    CO_RETURN_IF_ERROR(reader.finish());
    CO_ASSIGN_OR_RETURN(const auto access, wire::parse_registry(registry.value_or(Object{})));
    CO_ASSIGN_OR_RETURN(const auto pull, images_.start_pull(reference, access));
    co_return Object{{"pull", pull}};
  }
  if (operation == "image_progress") {
    CO_ASSIGN_OR_RETURN(const auto pull, only_text(fields, "pull"));
    CO_ASSIGN_OR_RETURN(const PullProgress progress, images_.progress(pull));
    co_return to_json(progress);
  }
  if (operation == "image_import") {
    CO_ASSIGN_OR_RETURN(auto name, only_text(fields, "name"));
    if (fds.size() != 1) {
      co_return base::fail(ErrorCode::malformed, "image_import takes one descriptor");
    }
    auto imported = co_await images_.import(std::move(name), std::move(fds.front()));
    CO_ASSIGN_OR_RETURN(const ImageRow row, std::move(imported));
    co_return to_json(row);
  }
  if (operation == "image_gc") {
    const ImageGcResult result = images_.gc();
    Array removed;
    for (const std::string& name : result.removed) {
      removed.emplace_back(name);
    }
    co_return Object{{"freed_bytes", result.freed_bytes}, {"removed", std::move(removed)}};
  }
  co_return base::fail(ErrorCode::not_supported, "no operation ", operation);
}

}  // namespace node
