// The bench's client: keep-alive connections to the gateway (or straight to an agent's socket), one
// coroutine each, so that the client's own cost stays far below what it measures. Prints one JSON
// object. The token comes by SANDBOX_GATEWAY_TOKEN, never as an argument.
//
//   load life ADDRESS IMAGE CLIENTS ROUNDS GAP_MS keep|delete
//   load run ADDRESS PREFIX CLIENTS ROUNDS
//   load crowd ADDRESS PREFIX,PREFIX,... CLIENTS SECONDS  (each runs one `sleep` of that time)
//   load up|down ADDRESS PREFIX PATH MIB
//   load send ADDRESS TARGET FILE             (PUT)
//   load fetch ADDRESS METHOD TARGET BODY     (reads the answer and counts it)
//
// ADDRESS is "127.0.0.1:8080" or "unix:/path"; PREFIX is "/sandboxes/ID", or "" for an agent.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/sys.h"
#include "net/http.h"
#include "net/task_group.h"
#include "wire/json.h"

namespace {

using namespace std::chrono_literals;
using base::cat;
using base::Result;
using Time = std::chrono::steady_clock;

constexpr auto kPatience = 120s;
constexpr size_t kAnswerBytesMax = 1 << 20;
constexpr size_t kPieceBytes = 1 << 20;

double ms_since(Time::time_point start) {
  return std::chrono::duration<double, std::milli>(Time::now() - start).count();
}

Result<base::Fd> connect_to(const std::string& address) {
  if (address.starts_with("unix:")) {
    return base::sys::connect_unix(address.substr(5), true);
  }
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(base::parse_number<uint16_t>(address.substr(colon + 1)).value_or(0));
  if (::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) {
    return base::fail(base::ErrorCode::malformed, "address ", address);
  }
  base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    return base::fail_errno(errno, "connect to ", address);
  }
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  RETURN_IF_ERROR(base::sys::set_nonblocking(socket.get()));
  return socket;
}

struct Answer {
  int status = 0;
  std::string body;
};

// One keep-alive connection.
class Client {
 public:
  Client(net::EventLoop& loop, base::Fd fd, const std::string& token)
      : stream(loop, std::move(fd)), reader(stream), token_(token) {}

  wire::http::HeadBuilder head(std::string_view method, std::string_view target) const {
    auto builder = wire::http::HeadBuilder::request(method, target);
    builder.add("host", "localhost").add("authorization", cat("Bearer ", token_));
    return builder;
  }
  net::Task<Result<Answer>> read_answer(std::string method) {
    CO_ASSIGN_OR_RETURN(const auto response,
                        co_await reader.read_response(method, net::Deadline::after(kPatience)));
    CO_ASSIGN_OR_RETURN(auto body, co_await reader.read_whole_body(kAnswerBytesMax, kPatience));
    co_return Answer{.status = response.status, .body = std::move(body)};
  }
  net::Task<Result<Answer>> ask(std::string method, std::string target, std::string body) {
    std::string bytes = head(method, target).add_length(body.size()).finish();
    bytes += body;
    CO_RETURN_IF_ERROR(co_await stream.write_all(bytes, kPatience));
    co_return co_await read_answer(std::move(method));
  }

  net::Stream stream;
  net::HttpReader reader;

 private:
  std::string token_;
};

struct Times {
  std::vector<double> create_ms;
  std::vector<double> first_result_ms;
  std::vector<double> run_ms;
  std::vector<double> delete_ms;
  std::vector<std::string> ids;
  uint64_t bytes = 0;  // of answers read by fetch
  std::string failure;
};

void note_failure(Times& times, std::string_view step, const Result<Answer>& answer) {
  times.failure = answer ? cat(step, ": ", answer->status, " ", answer->body)
                         : cat(step, ": ", answer.error().message);
}

std::string id_of(const std::string& body) {
  const auto object = wire::json::parse_object(body);
  if (!object || !object->contains("id") || !object->at("id").is_string()) {
    return "";
  }
  return std::string(object->at("id").get_string());
}

constexpr std::string_view kTrue = R"({"argv":["true"]})";

net::Task<void> one_life(Client& client, std::string image, bool remove, Times& times) {
  const auto start = Time::now();
  const auto created = co_await client.ask(
      "POST", "/sandboxes?wait=60",
      cat(R"({"cpus":0.25,"memory_mb":64,"storage_mb":64,"image":")", image, "\"}"));
  if (!created || created->status != 201 || !created->body.contains(R"("ready")")) {
    note_failure(times, "create", created);
    co_return;
  }
  times.create_ms.push_back(ms_since(start));
  const std::string id = id_of(created->body);
  const auto ran = co_await client.ask("POST", cat("/sandboxes/", id, "/run"), std::string(kTrue));
  if (!ran || ran->status != 200) {
    note_failure(times, "run", ran);
    co_return;
  }
  times.first_result_ms.push_back(ms_since(start));
  if (!remove) {
    times.ids.push_back(id);
    co_return;
  }
  const auto before_delete = Time::now();
  const auto deleted =
      co_await client.ask("DELETE", cat("/sandboxes/", id, "?wait=60"), std::string());
  if (!deleted || deleted->status >= 300) {
    note_failure(times, "delete", deleted);
    co_return;
  }
  times.delete_ms.push_back(ms_since(before_delete));
}

net::Task<void> live(Client& client, std::string image, int rounds, std::chrono::milliseconds gap,
                     bool remove, Times& times) {
  for (int i = 0; i < rounds && times.failure.empty(); ++i) {
    co_await one_life(client, image, remove, times);
    if (gap > 0ms) {
      co_await client.stream.loop().sleep_until(net::Deadline::after(gap));
    }
  }
}

net::Task<void> run_again(Client& client, std::string prefix, int rounds, Times& times) {
  for (int i = 0; i < rounds && times.failure.empty(); ++i) {
    const auto start = Time::now();
    const auto ran = co_await client.ask("POST", cat(prefix, "/run"), std::string(kTrue));
    if (!ran || ran->status != 200) {
      note_failure(times, "run", ran);
      co_return;
    }
    times.run_ms.push_back(ms_since(start));
  }
}

net::Task<void> run_long(Client& client, std::string prefix, int seconds, Times& times) {
  const auto start = Time::now();
  const auto ran = co_await client.ask("POST", cat(prefix, "/run"),
                                       cat(R"({"argv":["sleep",")", seconds, "\"]}"));
  if (!ran || ran->status != 200 || !ran->body.contains(R"("exit_code":0)")) {
    note_failure(times, "run", ran);
    co_return;
  }
  times.run_ms.push_back(ms_since(start));
}

net::Task<void> send_file(Client& client, std::string target, std::string path, Times& times) {
  const auto file = base::sys::open(path, O_RDONLY);
  struct stat about{};
  if (!file || ::fstat(file->get(), &about) != 0) {
    times.failure = cat("open ", path);
    co_return;
  }
  auto written = co_await client.stream.write_all(
      client.head("PUT", target).add_length(static_cast<uint64_t>(about.st_size)).finish(),
      kPatience);
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    const ssize_t size = ::read(file->get(), piece.data(), piece.size());
    if (size <= 0 || !written) {
      break;
    }
    written = co_await client.stream.write_all(
        std::string_view(piece).substr(0, static_cast<size_t>(size)), kPatience);
  }
  const auto answer = co_await client.read_answer("PUT");
  if (!answer || answer->status >= 300) {
    note_failure(times, "send", answer);
  }
}

net::Task<void> fetch(Client& client, std::string method, std::string target, std::string body,
                      Times& times) {
  std::string bytes =
      client.head(method, target).add("accept", "*/*").add_length(body.size()).finish();
  bytes += body;
  (void)co_await client.stream.write_all(bytes, kPatience);
  const auto response =
      co_await client.reader.read_response(method, net::Deadline::after(kPatience));
  if (!response || response->status != 200) {
    times.failure = cat("fetch: status ", response ? response->status : 0);
    co_return;
  }
  for (;;) {
    const auto piece = co_await client.reader.read_body(net::Deadline::after(kPatience));
    if (!piece) {
      times.failure = cat("fetch: ", piece.error().message);
      co_return;
    }
    if (piece->empty()) {
      co_return;
    }
    times.bytes += piece->size();
  }
}

net::Task<void> upload(Client& client, std::string target, uint64_t bytes, Times& times) {
  const std::string piece(kPieceBytes, 'x');
  auto written = co_await client.stream.write_all(
      client.head("PUT", target).add_length(bytes).finish(), kPatience);
  for (uint64_t done = 0; written && done < bytes; done += kPieceBytes) {
    written = co_await client.stream.write_all(piece, kPatience);
  }
  const auto answer = co_await client.read_answer("PUT");
  if (!answer || answer->status >= 300) {
    note_failure(times, "upload", answer);
  }
}

net::Task<void> download(Client& client, std::string target, uint64_t bytes, Times& times) {
  (void)co_await client.stream.write_all(client.head("GET", target).finish(), kPatience);
  const auto response =
      co_await client.reader.read_response("GET", net::Deadline::after(kPatience));
  uint64_t done = 0;
  while (response && response->status == 200) {
    const auto piece = co_await client.reader.read_body(net::Deadline::after(kPatience));
    if (!piece || piece->empty()) {
      break;
    }
    done += piece->size();
  }
  if (done != bytes) {
    times.failure =
        cat("download: ", done, " of ", bytes, " bytes, status ", response ? response->status : 0);
  }
}

wire::json::Array list_of(const auto& values) {
  wire::json::Array out;
  for (const auto& value : values) {
    out.emplace_back(value);
  }
  return out;
}

// What this program itself used: it is no part of what it measures.
double own_cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

void print(const Times& times, double wall_ms) {
  const wire::json::Object out{{"wall_ms", wall_ms},
                               {"own_cpu_ms", own_cpu_ms()},
                               {"create_ms", list_of(times.create_ms)},
                               {"first_result_ms", list_of(times.first_result_ms)},
                               {"run_ms", list_of(times.run_ms)},
                               {"delete_ms", list_of(times.delete_ms)},
                               {"ids", list_of(times.ids)},
                               {"bytes", times.bytes}};
  (void)base::sys::write_all(STDOUT_FILENO, wire::json::serialize(out) + "\n");
}

int number(const std::string& text) { return base::parse_number<int>(text).value_or(1); }

// `index`: the how manieth client it is.
net::Task<void> start(const std::vector<std::string>& args, size_t index, Client& client,
                      Times& times) {
  if (args[0] == "life") {
    return live(client, args[2], number(args[4]), std::chrono::milliseconds(number(args[5])),
                args[6] == "delete", times);
  }
  if (args[0] == "run") {
    return run_again(client, args[2], number(args[4]), times);
  }
  if (args[0] == "crowd") {
    const auto prefixes = base::split(args[2], ',');
    return run_long(client, std::string(prefixes[index % prefixes.size()]), number(args[4]), times);
  }
  if (args[0] == "send") {
    return send_file(client, args[2], args[3], times);
  }
  if (args[0] == "fetch") {
    return fetch(client, args[2], args[3], args[4], times);
  }
  const std::string target = cat(args[2], "/files?path=", base::percent_encode(args[3]));
  const uint64_t bytes = static_cast<uint64_t>(number(args[4])) * kPieceBytes;
  return args[0] == "up" ? upload(client, target, bytes, times)
                         : download(client, target, bytes, times);
}

int run(const std::vector<std::string>& args) {
  const char* token = ::getenv("SANDBOX_GATEWAY_TOKEN");
  const bool has_clients = args[0] == "life" || args[0] == "run" || args[0] == "crowd";
  const int clients = has_clients ? number(args[3]) : 1;
  net::EventLoop loop;
  Times times;
  std::vector<std::unique_ptr<Client>> connected;
  for (int i = 0; i < clients; ++i) {
    auto fd = connect_to(args[1]);
    if (!fd) {
      times.failure = fd.error().message;
      break;
    }
    connected.push_back(
        std::make_unique<Client>(loop, std::move(*fd), token == nullptr ? "" : token));
  }
  net::TaskGroup group(loop);
  const auto begin = Time::now();
  if (times.failure.empty()) {
    for (size_t i = 0; i < connected.size(); ++i) {
      group.spawn(start(args, i, *connected[i], times));
    }
  }
  while (group.size() > 0) {
    loop.run_once(1s);
  }
  if (!times.failure.empty()) {
    (void)base::sys::write_all(STDERR_FILENO, times.failure + "\n");
    return 1;
  }
  print(times, ms_since(begin));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const size_t wanted = args.empty() ? 0 : args[0] == "life" ? 7 : args[0] == "send" ? 4 : 5;
  if (args.size() != wanted || wanted == 0) {
    (void)base::sys::write_all(STDERR_FILENO, "see the head of bench/load.cc\n");
    return 2;
  }
  return run(args);
}
