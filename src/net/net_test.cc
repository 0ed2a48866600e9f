#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/sys.h"
#include "net/http.h"
#include "net/stream_pump.h"
#include "net/task_group.h"

namespace net {
namespace {

using namespace std::chrono_literals;

// Runs `task` on a loop until it ends.
void run(EventLoop& loop, Task<void> task) {
  TaskGroup group(loop);
  group.spawn(std::move(task));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

struct Pair {
  explicit Pair(EventLoop& loop)
      : Pair(loop, *base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK)) {}
  Pair(EventLoop& loop, std::pair<base::Fd, base::Fd> ends)
      : a(loop, std::move(ends.first)), b(loop, std::move(ends.second)) {}
  Stream a;
  Stream b;
};

Task<void> expect_read(Stream& stream, std::string expected) {
  std::array<char, 64> buffer;
  const auto count = co_await stream.read_some(buffer, Deadline::after(5s));
  EXPECT_TRUE(count.has_value());
  EXPECT_EQ(std::string(buffer.data(), count.value_or(0)), expected);
}

TEST(Stream, waits_for_bytes_that_come_later) {
  EventLoop loop;
  Pair pair(loop);
  loop.add_timer(std::chrono::steady_clock::now() + 5ms,
                 [&] { EXPECT_EQ(::write(pair.b.fd(), "hello", 5), 5); });
  run(loop, expect_read(pair.a, "hello"));
}

TEST(Stream, what_was_sent_is_dropped_from_the_front_of_its_parts) {
  std::array<std::string_view, 3> parts{"ab", "", "cde"};
  drop_sent(parts, 0);
  EXPECT_EQ(parts[0], "ab");
  drop_sent(parts, 3);
  EXPECT_EQ(parts, (std::array<std::string_view, 3>{"", "", "de"}));
  drop_sent(parts, 2);
  EXPECT_EQ(parts, (std::array<std::string_view, 3>{}));
}

Task<void> expect_error(Stream& stream, base::Milliseconds wait, ErrorCode code) {
  std::array<char, 8> buffer;
  const auto count = co_await stream.read_some(buffer, Deadline::after(wait));
  EXPECT_FALSE(count.has_value());
  EXPECT_EQ(count.error().code, code);
}

TEST(Stream, read_gives_up_at_its_deadline) {
  EventLoop loop;
  Pair pair(loop);
  run(loop, expect_error(pair.a, 5ms, ErrorCode::deadline_exceeded));
}

TEST(TaskGroup, cancel_ends_a_wait) {
  EventLoop loop;
  Pair pair(loop);
  TaskGroup group(loop);
  group.spawn(expect_error(pair.a, 60s, ErrorCode::cancelled));
  ASSERT_EQ(group.size(), 1U);
  group.cancel();
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

Task<void> wait_for(Event& event, bool& flag, int& woken) {
  while (!flag) {
    co_await event.wait(Deadline::never());
  }
  ++woken;
}

TEST(Event, wakes_all_waiters) {
  EventLoop loop;
  Event event(loop);
  bool flag = false;
  int woken = 0;
  TaskGroup group(loop);
  for (int i = 0; i < 3; ++i) {
    group.spawn(wait_for(event, flag, woken));
  }
  flag = true;
  event.notify();
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
  EXPECT_EQ(woken, 3);
}

TEST(EventLoop, runs_work_posted_from_another_thread) {
  EventLoop loop;
  std::jthread other([&] { loop.post([&] { loop.stop(); }); });
  loop.run();
}

TEST(EventLoop, a_stop_from_before_it_runs_is_kept) {
  EventLoop loop;
  loop.stop();
  loop.run();
}

Task<void> serve_one(Stream& stream) {
  HttpReader reader(stream);
  const auto request = co_await reader.read_request(Deadline::after(5s), 5s);
  EXPECT_TRUE(request && *request);
  EXPECT_EQ((*request)->method, "POST");
  const auto body = co_await reader.read_whole_body(1000, 5s);
  EXPECT_EQ(body.value_or("?"), "hello world");
  HttpWriter writer(stream, 5s);
  (void)co_await writer.write_head(wire::http::HeadBuilder::response(200).add_chunked().finish());
  (void)co_await writer.write_chunk("good");
  (void)co_await writer.write_chunk("bye");
  (void)co_await writer.finish_chunks();
}

Task<void> ask_one(Stream& stream) {
  HttpWriter writer(stream, 5s);
  (void)co_await writer.write_head(
      wire::http::HeadBuilder::request("POST", "/x").add_chunked().finish());
  (void)co_await writer.write_chunk("hello ");
  (void)co_await writer.write_chunk("world");
  (void)co_await writer.finish_chunks();
  HttpReader reader(stream);
  const auto response = co_await reader.read_response("POST", Deadline::after(5s));
  EXPECT_TRUE(response.has_value());
  const auto body = co_await reader.read_whole_body(1000, 5s);
  EXPECT_EQ(body.value_or("?"), "goodbye");
}

TEST(Http, carries_chunked_bodies_both_ways) {
  EventLoop loop;
  Pair pair(loop);
  TaskGroup group(loop);
  group.spawn(serve_one(pair.b));
  group.spawn(ask_one(pair.a));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

// A byte now and then, of a body that has no end.
Task<void> drip(Stream& stream) {
  while (co_await stream.write_all("1\r\nx\r\n", 5s)) {
    co_await stream.loop().sleep_until(Deadline::after(2ms));
  }
}

Task<void> drain_for_a_while(Stream& stream) {
  HttpReader reader(stream);
  EXPECT_TRUE((co_await reader.read_request(Deadline::after(5s), 5s)).has_value());
  EXPECT_FALSE(co_await reader.drain_body(1'000'000, 5s, 20ms));
  stream.close();
}

TEST(Http, a_dripping_peer_is_not_listened_to_for_ever) {
  EventLoop loop;
  Pair pair(loop);
  TaskGroup group(loop);
  const std::string head = wire::http::HeadBuilder::request("POST", "/x").add_chunked().finish();
  EXPECT_EQ(::write(pair.a.fd(), head.data(), head.size()), static_cast<ssize_t>(head.size()));
  group.spawn(drip(pair.a));
  group.spawn(drain_for_a_while(pair.b));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
}

Task<void> splice_all(Stream& from, Stream& to, uint64_t bytes) {
  SplicePipe pipe;
  for (const uint64_t part : {bytes / 3, bytes - bytes / 3}) {
    const auto moved = co_await pipe.move(from, to, part, 5s);
    EXPECT_EQ(moved.value_or(0), part);
  }
}

Task<void> write_bytes(Stream& to, std::string bytes) {
  const auto written = co_await to.write_all(bytes, 5s);
  EXPECT_TRUE(written.has_value());
}

Task<void> read_bytes(Stream& from, std::string& out, size_t wanted) {
  std::array<char, 4096> buffer;
  while (out.size() < wanted) {
    const auto count = co_await from.read_some(buffer, Deadline::after(5s));
    if (!count || *count == 0) {
      break;
    }
    out.append(buffer.data(), *count);
  }
}

TEST(Stream, splice_moves_exactly_the_bytes_asked_for) {
  EventLoop loop;
  Pair in(loop);
  Pair out(loop);
  std::string bytes(3'000'000, 'x');
  for (size_t i = 0; i < bytes.size(); i += 97) {
    bytes[i] = static_cast<char>('a' + i % 26);
  }
  std::string received;
  TaskGroup group(loop);
  group.spawn(write_bytes(in.a, bytes));
  group.spawn(splice_all(in.b, out.a, bytes.size()));
  group.spawn(read_bytes(out.b, received, bytes.size()));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
  EXPECT_TRUE(received == bytes);
}

Task<void> write_and_end(Stream& to, std::string_view bytes) {
  co_await to.write_all(bytes, 5s);
  to.shutdown_write();
}

// Most of it never comes out of the kernel; its end must.
TEST(StreamPump, tells_the_last_bytes_of_a_flood) {
  EventLoop loop;
  Pair in(loop);
  Pair out(loop);
  StreamTail tail;
  const std::string bytes = std::string(3'000'000, 'x') + std::string(400, 'y') + "the end";
  std::string received;
  TaskGroup group(loop);
  group.spawn(write_and_end(in.a, bytes));
  group.spawn(pump_both({.stream = in.b, .read_ahead = "early", .tail = &tail},
                        {.stream = out.a, .read_ahead = {}}, HalfClose::ends_both, 5s));
  group.spawn(read_bytes(out.b, received, bytes.size() + 5));
  while (group.size() > 0) {
    loop.run_once(100ms);
  }
  EXPECT_TRUE(received == "early" + bytes);
  EXPECT_EQ(tail.bytes(), bytes.substr(bytes.size() - StreamTail::kBytesMax));
  StreamTail short_one;
  short_one.add("ab");
  short_one.add("");
  short_one.add("c");
  EXPECT_EQ(short_one.bytes(), "abc");
}

}  // namespace
}  // namespace net
