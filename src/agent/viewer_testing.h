// For tests: the client of a connection to an agent that has become frames.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/agent_testing.h"
#include "wire/websocket.h"

namespace agent {

class Viewer {
 public:
  // GET; with a body POST. Anything but 101 fails the test.
  Viewer(const TestAgent& agent, std::string_view target, std::string_view body = "");

  void send(wire::websocket::Opcode opcode, std::string_view payload);
  void send_raw(std::string_view bytes) { client_.send(bytes); }
  void type(std::string_view text);
  void order(std::string_view json) { send(wire::websocket::Opcode::text, json); }
  void leave() { client_.close(); }
  void half_close() { client_.half_close(); }

  // Until both streams together have shown the text; false when the connection ends before.
  bool sees(std::string_view text);
  // Until so many pings have come; false when the connection ends before.
  bool is_pinged(int times);
  // Until the agent closes.
  void watch_to_the_end();

  std::string shown_;
  std::string err_;
  std::vector<wire::json::Object> told_;  // text messages but offsets
  int64_t first_offset_ = -1;
  int64_t offset_ = -1;
  int pongs_ = 0;
  int pings_ = 0;
  bool answers_pings_ = true;
  int close_code_ = 0;
  std::string close_reason_;

 private:
  bool read();
  void take(std::string_view bytes);
  void note(const wire::websocket::Event& event);

  TestClient client_;
  wire::websocket::Decoder decoder_{wire::websocket::Role::client, 1024 * 1024};
};

}  // namespace agent
