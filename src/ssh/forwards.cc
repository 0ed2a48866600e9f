#include "ssh/forwards.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/counted.h"
#include "base/host.h"
#include "ssh/pump.h"

namespace ssh {
namespace {

using net::Deadline;

constexpr size_t kLineBytesMax = 4096;

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

// One line of JSON; nothing at the end of the stream, or where it is none.
class Lines {
 public:
  explicit Lines(GatewayStream& stream) : stream_(stream), bytes_(std::move(stream.early)) {}

  Task<std::optional<wire::json::Object>> next() {
    for (;;) {
      if (const size_t end = bytes_.find('\n'); end != std::string::npos) {
        const auto object = wire::json::parse_object(std::string_view(bytes_).substr(0, end));
        bytes_.erase(0, end + 1);
        co_return object ? std::optional(*object) : std::nullopt;
      }
      std::array<char, kLineBytesMax> buffer;
      const auto size = co_await stream_.stream->read_some(buffer, Deadline::never());
      if (!size || *size == 0 || bytes_.size() > kLineBytesMax) {
        co_return std::nullopt;
      }
      bytes_.append(buffer.data(), *size);
    }
  }

  // What was read behind the lines that were given.
  std::string take_rest() { return std::move(bytes_); }

 private:
  GatewayStream& stream_;
  std::string bytes_;
};

template <typename T>
T field(const wire::json::Object& object, std::string_view name, const T& standard) {
  wire::json::Reader reader(object);
  const auto value = reader.optional<T>(name);
  return value && *value ? **value : standard;
}

}  // namespace

void Forwards::connect(Message message) { group_.spawn(serve_connect(std::move(message))); }

Task<void> Forwards::serve_connect(Message message) {
  const std::string host = text_of(::ssh_message_channel_request_open_destination(message.get()));
  const int port = ::ssh_message_channel_request_open_destination_port(message.get());
  if (!has_room_() || host.empty() || host.size() > base::kHostBytesMax) {
    ::ssh_message_reply_default(message.get());
    transport_.touched();
    co_return;
  }
  const base::Counted counted(channels_);
  auto stream = co_await gateway_.ask(
      {.method = "GET",
       .target = base::cat("/tcp?host=", base::percent_encode(host), "&port=", port),
       .bearer = account_.secret});
  if (transport_.ended()) {
    co_return;
  }
  if (!stream) {
    ::ssh_message_reply_default(message.get());
    transport_.touched();
    co_return;
  }
  const ssh_channel opened = ::ssh_message_channel_request_open_reply_accept(message.get());
  message.reset();
  transport_.touched();
  if (opened != nullptr) {
    Channel channel(transport_, opened);
    co_await pump(channel, std::move(*stream), EndOfOutput::ends_itself);
  }
}

void Forwards::take_global(Message message) {
  if (globals_.size() == kGlobalsMax) {
    transport_.disconnect("too many requests at once");
    return;
  }
  globals_.push_back(std::move(message));
  if (!is_answering_) {
    answer_globals();
  }
}

// One after the other: a client tells answers apart by their order only (RFC 4254, 4).
void Forwards::answer_globals() {
  is_answering_ = false;
  while (!globals_.empty() && !is_answering_) {
    Message message = std::move(globals_.front());
    globals_.pop_front();
    switch (::ssh_message_subtype(message.get())) {
      case SSH_GLOBAL_REQUEST_TCPIP_FORWARD:
        is_answering_ = true;
        group_.spawn(serve_listen(std::move(message)));
        break;
      case SSH_GLOBAL_REQUEST_CANCEL_TCPIP_FORWARD:
        stop_listening(message);
        break;
      default:
        ::ssh_message_reply_default(message.get());
        transport_.touched();
    }
  }
}

Task<void> Forwards::serve_listen(Message message) {
  Listener listener(text_of(::ssh_message_global_request_address(message.get())),
                    transport_.loop());
  const int asked = ::ssh_message_global_request_port(message.get());
  // "" is every address; "localhost" and what else has a name is for the agent to know.
  const std::string target = base::cat(
      "/listen?host=", base::percent_encode(listener.address.empty() ? "*" : listener.address),
      "&port=", asked);
  if (listeners_.size() >= kListenersMax || listener.address.size() > base::kHostBytesMax) {
    ::ssh_message_reply_default(message.get());
    transport_.touched();
    answer_globals();
    co_return;
  }
  const auto place = listeners_.insert(listeners_.end(), &listener);
  auto stream =
      co_await gateway_.ask({.method = "GET", .target = target, .bearer = account_.secret});
  if (stream && !transport_.ended()) {
    Lines lines(*stream);
    const auto first = co_await lines.next();
    if (first && !transport_.ended()) {
      listener.port = static_cast<int>(field<int64_t>(*first, "port", 0));
      ::ssh_message_global_request_reply_success(message.get(),
                                                 static_cast<uint16_t>(listener.port));
      message.reset();
      transport_.touched();
      const std::string id = field<std::string>(*first, "listener", "");
      stream->early = lines.take_rest();
      listener.group.spawn(accept_all(listener, *stream, id));
      answer_globals();
      co_await listener.group.join();
    }
  }
  if (message && !transport_.ended()) {
    ::ssh_message_reply_default(message.get());
    transport_.touched();
    answer_globals();
  }
  listeners_.erase(place);
}

Task<void> Forwards::accept_all(Listener& listener, GatewayStream& stream, std::string id) {
  Lines lines(stream);
  for (;;) {
    const auto line = co_await lines.next();
    if (!line) {
      co_return;
    }
    const auto number = field<int64_t>(*line, "connection", -1);
    if (number < 0) {
      continue;
    }
    // What cannot be taken now, the agent closes after its time.
    if (has_room_()) {
      group_.spawn(serve_accepted(
          listener.address, listener.port,
          base::cat("/accept?listener=", base::percent_encode(id), "&connection=", number),
          field<std::string>(*line, "host", "127.0.0.1"),
          static_cast<int>(field<int64_t>(*line, "port", 0))));
    }
  }
}

Task<void> Forwards::serve_accepted(std::string address, int port, std::string target,
                                    std::string host, int host_port) {
  const base::Counted counted(channels_);
  auto stream = co_await gateway_.ask(
      {.method = "GET", .target = std::move(target), .bearer = account_.secret});
  if (!stream || transport_.ended()) {
    co_return;
  }
  const ssh_channel opened = ::ssh_channel_new(transport_.session());
  if (opened == nullptr) {
    co_return;
  }
  int done = SSH_AGAIN;
  while (done == SSH_AGAIN && !transport_.ended()) {
    done =
        ::ssh_channel_open_reverse_forward(opened, address.c_str(), port, host.c_str(), host_port);
    transport_.touched();
    if (done == SSH_AGAIN) {
      [[maybe_unused]] const auto wake = co_await transport_.activity().wait(Deadline::never());
    }
  }
  if (done != SSH_OK) {
    if (!transport_.ended()) {
      ::ssh_channel_free(opened);
    }
    co_return;
  }
  Channel channel(transport_, opened);
  co_await pump(channel, std::move(*stream), EndOfOutput::ends_itself);
}

void Forwards::stop_listening(const Message& message) {
  const std::string address = text_of(::ssh_message_global_request_address(message.get()));
  const int port = ::ssh_message_global_request_port(message.get());
  const auto found = std::ranges::find_if(listeners_, [&](const Listener* listener) {
    return listener->address == address && listener->port == port;
  });
  if (found == listeners_.end()) {
    ::ssh_message_reply_default(message.get());
  } else {
    ::ssh_message_global_request_reply_success(message.get(), 0);
    (*found)->group.cancel();
  }
  transport_.touched();
}

}  // namespace ssh
