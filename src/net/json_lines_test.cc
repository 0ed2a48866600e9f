#include "net/json_lines.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "net/listener.h"
#include "net/stream.h"
#include "net/task_group.h"

namespace net {
namespace {

using namespace std::chrono_literals;
using wire::json::Object;

struct Pair {
  explicit Pair(EventLoop& loop)
      : Pair(loop, *base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK)) {}
  Pair(EventLoop& loop, std::pair<base::Fd, base::Fd> ends)
      : raw(ends.second.get()), a(loop, std::move(ends.first)), b(loop, std::move(ends.second)) {}
  int raw;  // b's descriptor
  JsonLines a;
  JsonLines b;
};

void run(EventLoop& loop, Task<void> task) {
  TaskGroup group(loop);
  group.spawn(std::move(task));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

Task<void> expect_error(JsonLines& lines, ErrorCode code) {
  const auto line = co_await lines.read(Deadline::after(5s));
  EXPECT_FALSE(line.has_value());
  EXPECT_EQ(line ? ErrorCode::internal : line.error().code, code);
}

Task<void> expect_number(JsonLines& lines, int64_t number) {
  const auto line = co_await lines.read(Deadline::after(5s));
  EXPECT_TRUE(line && *line);
  EXPECT_EQ((*line)->object.at("n").as_int64(), number);
}

TEST(JsonLines, lines_come_whole_however_they_are_cut) {
  EventLoop loop;
  Pair pair(loop);
  ASSERT_TRUE(base::sys::write_all(pair.raw, "{\"n\":1}\n{\"n\""));
  run(loop, expect_number(pair.a, 1));
  ASSERT_TRUE(base::sys::write_all(pair.raw, ":2}\n"));
  run(loop, expect_number(pair.a, 2));
}

Task<void> expect_end(JsonLines& lines) {
  const auto line = co_await lines.read(Deadline::after(5s));
  EXPECT_TRUE(line && !*line);
}

TEST(JsonLines, the_end_is_told_and_inside_a_line_it_is_an_error) {
  EventLoop loop;
  Pair pair(loop);
  pair.b.close();
  run(loop, expect_end(pair.a));
  Pair other(loop);
  ASSERT_TRUE(base::sys::write_all(other.raw, "{\"n\""));
  other.b.close();
  run(loop, expect_error(other.a, ErrorCode::connection_closed));
}

TEST(JsonLines, nonsense_and_endless_lines_are_malformed) {
  EventLoop loop;
  for (const std::string& bytes : {std::string("[]\n"), std::string("{\n"), std::string("\n"),
                                   std::string("{\"fds\":1}\n"), std::string("{\"fds\":-1}\n")}) {
    Pair pair(loop);
    ASSERT_TRUE(base::sys::write_all(pair.raw, bytes));
    run(loop, expect_error(pair.a, ErrorCode::malformed));
  }
}

Task<void> write_endlessly(Stream& stream) {
  const std::string bytes(size_t{64} * 1024, 'x');
  while (true) {
    const auto written = co_await stream.write_all(bytes, 5s);
    if (!written) {
      co_return;
    }
  }
}

Task<void> expect_malformed_then_close(JsonLines& lines) {
  co_await expect_error(lines, ErrorCode::malformed);
  lines.close();
}

TEST(JsonLines, a_line_without_an_end_is_given_up_at_its_limit) {
  EventLoop loop;
  auto ends = *base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
  JsonLines lines(loop, std::move(ends.first));
  Stream stream(loop, std::move(ends.second));
  TaskGroup group(loop);
  group.spawn(write_endlessly(stream));
  group.spawn(expect_malformed_then_close(lines));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

Task<void> expect_lines_with_fds(JsonLines& lines, int count) {
  for (int i = 0; i < count; ++i) {
    auto line = co_await lines.read(Deadline::after(5s));
    EXPECT_TRUE(line && *line);
    EXPECT_EQ((*line)->object.at("n").as_int64(), i);
    EXPECT_EQ((*line)->fds.size(), i % 3 == 0 ? 1U : 0U);
    if (!(*line)->fds.empty()) {
      EXPECT_EQ(base::sys::read_all((*line)->fds.front().get(), 100).value_or("?"),
                base::cat("file ", i));
    }
  }
}

TEST(JsonLines, descriptors_come_with_their_line_also_when_the_socket_is_full) {
  EventLoop loop;
  Pair pair(loop);
  constexpr int kLines = 40;
  const std::string padding(100'000, 'p');  // more together than the socket takes
  TaskGroup group(loop);
  for (int i = 0; i < kLines; ++i) {
    std::vector<base::Fd> fds;
    if (i % 3 == 0) {
      fds.push_back(*base::sys::make_sealed_memory("test", base::cat("file ", i)));
    }
    const auto sent = pair.b.send(Object{{"n", i}, {"padding", padding}}, std::move(fds));
    ASSERT_TRUE(sent.has_value()) << sent.error().message;
  }
  group.spawn(expect_lines_with_fds(pair.a, kLines));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

TEST(JsonLines, a_peer_that_does_not_read_is_noticed) {
  EventLoop loop;
  Pair pair(loop);
  const std::string padding(1'000'000, 'p');
  Result<void> sent;
  for (size_t bytes = 0; sent && bytes < 2 * JsonLines::kQueuedBytesMax; bytes += padding.size()) {
    sent = pair.b.send(Object{{"padding", padding}});
  }
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code, ErrorCode::overloaded);
}

TEST(JsonLines, a_line_over_the_limit_is_not_sent) {
  EventLoop loop;
  Pair pair(loop);
  const auto sent = pair.b.send(Object{{"x", std::string(JsonLines::kLineBytesMax, 'x')}});
  EXPECT_EQ(sent.error().code, ErrorCode::body_too_large);
}

// --- the listener

Task<void> accept_one(Listener& listener, ErrorCode& end) {
  const auto connection = co_await listener.accept();
  end = connection ? ErrorCode::internal : connection.error().code;
  EXPECT_TRUE(!connection || connection->valid());
}

TEST(Listener, takes_connections_at_the_port_it_was_given) {
  EventLoop loop;
  Listener listener(loop, *listen_tcp("127.0.0.1:0", 8));
  ASSERT_NE(listener.port(), 0);
  const auto taken = listen_tcp(base::cat("127.0.0.1:", listener.port()), 8);
  EXPECT_FALSE(taken.has_value());
  ErrorCode end = ErrorCode::io;
  TaskGroup group(loop);
  group.spawn(accept_one(listener, end));
  group.cancel();
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
  EXPECT_EQ(end, ErrorCode::cancelled);
}

TEST(Listener, takes_unix_connections) {
  EventLoop loop;
  const std::string path = base::cat(testing::TempDir(), "listener-", ::getpid(), ".sock");
  Listener listener(loop, *base::sys::listen_unix(path, 0600, 8));
  const auto client = base::sys::connect_unix(path, true);
  ASSERT_TRUE(client.has_value());
  ErrorCode end = ErrorCode::io;
  run(loop, accept_one(listener, end));
  EXPECT_EQ(end, ErrorCode::internal);
  EXPECT_EQ(listener.port(), 0);
  ::unlink(path.c_str());
}

TEST(Listener, addresses_are_numbers_with_a_port) {
  for (const char* const address : {"", "8080", "localhost:80", "127.0.0.1:", "127.0.0.1:99999",
                                    "[::1:80", "::1:80", "127.0.0.1:8x"}) {
    const auto socket = listen_tcp(address, 8);
    ASSERT_FALSE(socket.has_value()) << address;
    EXPECT_EQ(socket.error().code, ErrorCode::invalid_field) << address;
  }
}

}  // namespace
}  // namespace net
