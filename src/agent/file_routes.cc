#include "agent/file_routes.h"

#include <algorithm>
#include <array>

#include "agent/file_change.h"
#include "agent/file_read.h"
#include "agent/file_request.h"
#include "agent/file_watch.h"
#include "agent/file_write.h"

namespace agent {
namespace {

struct ChangeRoute {
  std::string_view method;
  std::string_view path;
  FileRoute route;
  net::Task<Result<void>> (*handler)(net::Stream& client, FileRequest request);
};

constexpr std::array kChanges{
    ChangeRoute{"DELETE", "/files", FileRoute::remove, remove_file},
    ChangeRoute{"POST", "/files/mkdir", FileRoute::make_folder, make_folder},
    ChangeRoute{"POST", "/files/move", FileRoute::move, move_file},
    ChangeRoute{"POST", "/files/chmod", FileRoute::change_mode, change_mode}};

}  // namespace

net::Task<Result<void>> serve_files(Agent& agent, net::Stream& client, net::HttpReader& reader,
                                    const wire::http::Request& request) {
  bool is_known = request.path == "/files";
  if (is_known && (request.method == "GET" || request.method == "HEAD")) {
    co_return co_await read_file(agent, client, request);
  }
  if (is_known && request.method == "PUT") {
    co_return co_await write_file(agent, client, reader, request);
  }
  if (request.path == "/files/watch" && request.method == "GET") {
    CO_ASSIGN_OR_RETURN(FileRequest wanted, parse_file_request(agent, request, FileRoute::watch));
    co_return co_await watch_files(agent, client, std::move(wanted));
  }
  is_known = is_known || request.path == "/files/watch";
  for (const ChangeRoute& change : kChanges) {
    if (change.path != request.path) {
      continue;
    }
    is_known = true;
    if (change.method == request.method) {
      CO_ASSIGN_OR_RETURN(FileRequest wanted, parse_file_request(agent, request, change.route));
      co_return co_await change.handler(client, std::move(wanted));
    }
  }
  if (is_known) {
    co_return base::fail(ErrorCode::method_not_allowed, request.method, " is not allowed on ",
                         request.path);
  }
  co_return base::fail(ErrorCode::not_found, "there is no route ", request.path);
}

}  // namespace agent
