#include "agent/viewer_testing.h"

#include <gtest/gtest.h>

namespace agent {

using wire::websocket::Event;
using wire::websocket::Opcode;

Viewer::Viewer(const TestAgent& agent, std::string_view target, std::string_view body)
    : client_(agent.socket_path()) {
  client_.send(base::cat(body.empty() ? "GET " : "POST ", target,
                         " HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n",
                         body.empty() ? "" : base::cat("content-length: ", body.size(), "\r\n"),
                         "\r\n", body));
  EXPECT_TRUE(client_.wait_for("\r\n\r\n"));
  const std::string head = client_.take();
  EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
  take(std::string_view(head).substr(head.find("\r\n\r\n") + 4));
}

void Viewer::send(Opcode opcode, std::string_view payload) {
  client_.send(wire::websocket::make_masked_frame(opcode, payload, {'a', 'b', 'c', 'd'}));
}

void Viewer::type(std::string_view text) { send(Opcode::binary, base::cat('\0', text)); }

bool Viewer::sees(std::string_view text) {
  while (shown_.find(text) == std::string::npos) {
    if (!read()) {
      return false;
    }
  }
  return true;
}

bool Viewer::is_pinged(int times) {
  while (pings_ < times) {
    if (!read()) {
      return false;
    }
  }
  return true;
}

void Viewer::watch_to_the_end() {
  while (read()) {
  }
}

bool Viewer::read() {
  if (close_code_ != 0 || !client_.read_more()) {
    return false;
  }
  take(client_.take());
  return true;
}

void Viewer::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto step = decoder_.next(bytes);
    ASSERT_TRUE(step.has_value());
    bytes.remove_prefix(step->consumed);
    if (step->event) {
      note(*step->event);
    }
  }
}

void Viewer::note(const Event& event) {
  if (event.kind == Event::Kind::binary) {
    shown_ += event.payload.substr(1);
    if (event.payload.front() == 2) {
      err_ += event.payload.substr(1);
    } else {
      EXPECT_EQ(event.payload.front(), 1);
    }
  } else if (event.kind == Event::Kind::text) {
    const auto object = wire::json::parse_object(event.payload);
    ASSERT_TRUE(object.has_value());
    if (text_of(*object, "type") == "offset") {
      offset_ = object->at("offset").as_int64();
      first_offset_ = first_offset_ < 0 ? offset_ : first_offset_;
    } else {
      told_.push_back(*object);
    }
  } else if (event.kind == Event::Kind::pong) {
    EXPECT_EQ(event.payload, "ping");
    ++pongs_;
  } else if (event.kind == Event::Kind::ping) {
    ++pings_;
    if (answers_pings_) {
      send(Opcode::pong, event.payload);
    }
  } else if (event.kind == Event::Kind::close) {
    close_code_ = event.close_code;
    close_reason_ = event.payload;
  }
}

}  // namespace agent
