// A session channel: what its client asks before a command is started (a terminal, variables), then
// one command, shell or subsystem with its streams, until its end. A coroutine of its connection.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ssh/channel.h"
#include "ssh/gateway.h"
#include "wire/json.h"
#include "wire/websocket.h"

namespace ssh {

// The connection in whose name it asks the gateway.
struct Account {
  std::string secret;
};

class CommandChannel {
 public:
  CommandChannel(Transport& transport, ssh_channel channel, Gateway& gateway,
                 const Account& account);
  CommandChannel(const CommandChannel&) = delete;
  CommandChannel& operator=(const CommandChannel&) = delete;

  // A request on this channel, answered at once.
  void take(ssh_message message);
  // Waits for the request that starts a command, and serves it until it has ended or the client has
  // closed the channel.
  Task<void> serve();

  [[nodiscard]] ssh_channel handle() const { return channel_.handle(); }

 private:
  struct Size {
    int columns = 0;
    int rows = 0;
  };

  bool take_terminal(ssh_message message);
  bool take_variable(ssh_message message);
  bool take_command(ssh_message message);
  void take_size(ssh_message message);
  void order(wire::json::Object order);
  [[nodiscard]] GatewayRequest request() const;
  Task<void> run();
  // A command with frames, a helper whose connection is its streams.
  Task<void> serve_frames(GatewayStream stream);
  Task<void> pass_input(net::Stream& stream, net::TaskGroup& both);
  Task<void> pass_output(net::Stream& stream, std::string early, net::TaskGroup& both);
  Task<bool> take_frames(wire::websocket::Decoder& decoder, std::string_view bytes);
  void note_exit(std::string_view text);
  Task<void> say(std::string message);

  Channel channel_;
  Gateway& gateway_;
  const Account& account_;
  std::map<std::string, std::string> variables_;
  std::optional<Size> terminal_;
  wire::json::Object command_;
  std::string refusal_;  // why it is not even asked for
  bool is_helper_ = false;
  bool wants_agent_ = false;
  std::string orders_;  // frames that wait for their turn
  std::optional<int> exit_status_;
  std::string exit_signal_;
};

}  // namespace ssh
