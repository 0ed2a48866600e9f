// The CLI's HTTP(S) client: libcurl behind one call. Owned by main, and by whoever needs a second
// one beside it; one thread; one request at a time over kept-alive connections. A request ends
// early when a signal arrives (code cancelled) or when the peer is silent for longer than the
// request allows (deadline_exceeded). An HTTP error status is a response, not an error. No
// redirects are followed: the token goes to one place.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "cli/interrupt.h"

namespace cli {

using base::Result;

// Longest silence while an answer is due. The gateway sends a byte every 15 s on anything long.
inline constexpr int kSilenceSecondsMax = 60;
// Answers kept in memory: a run's 32 MiB in base64 with its JSON fits.
inline constexpr size_t kAnswerBytesMax = 64UL * 1024 * 1024;

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // "/sandboxes?limit=1"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // sent when neither of the next two is there
  // Made on the way: fills a part of the buffer, 0 at the end. Its error ends the request.
  std::function<Result<size_t>(std::span<char>)> body_source;
  int body_fd = -1;                   // streamed from here to its end (not owned)
  std::optional<uint64_t> body_size;  // of body_fd, when known; else chunked
  bool accepts_coded = false;         // the answer may come compressed; its sink sees it plain
  int silence_seconds_max = kSilenceSecondsMax;
  bool fresh_connection = false;  // never resent by the transport: for what must run once
  bool ignore_signals = false;    // for what must be finished whatever the user presses
};

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  [[nodiscard]] const std::string* find(std::string_view name) const;
};

// Gets the payload of a 2xx answer piece by piece; other answers stay in HttpResponse::body.
using BodySink = std::function<Result<void>(const HttpResponse& head, std::string_view bytes)>;
// Called now and then during a transfer.
struct TransferCounts {
  int64_t sent = 0, send_total = 0, received = 0, receive_total = 0;  // totals 0: not known
};
using TransferObserver = std::function<void(const TransferCounts&)>;

// What a gateway's certificate is held against.
struct Trust {
  std::string ca_file;    // authorities in PEM; "": the system's
  bool insecure = false;  // against nothing: whoever answers gets the token
};

// Where requests go, and as whom.
struct Endpoint {
  std::string url;  // like "https://host:8443/prefix", checked by parse_gateway_url
  base::Secret token;
  Trust trust;
};

// The same for every handle of libcurl (a CURL*).
void apply_trust(void* easy, const Trust& trust);
// A failed transfer as our error; `code` is a CURLcode.
base::Error transport_error(int code, const char* detail, const std::string& url);

class HttpClient {
 public:
  HttpClient(Endpoint endpoint, Interrupt& interrupt);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpResponse> send(const HttpRequest& request, const BodySink& sink = {},
                            const TransferObserver& observer = {});

  // The same in the background of a loop that waits for other things too: begin, then poll() on
  // add_waits() and step() until that gives the outcome. Neither a signal nor silence ends it.
  void begin(HttpRequest request, BodySink sink = {});
  [[nodiscard]] bool busy() const;
  // Adds what to poll for; the result is how many milliseconds may pass at most, -1 for any time.
  int add_waits(std::vector<pollfd>& waits);
  // The outcome, once; nullopt while it goes on.
  std::optional<Result<HttpResponse>> step();
  // Closes the connection of the request in the background, if any.
  void abandon();

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] const std::string& url() const { return endpoint_.url; }

 private:
  struct Transfer;
  struct Handles;

  // Sets the easy handle up and gives it to the multi handle.
  void attach(Transfer& transfer);
  // Takes it away again; an unfinished request's connection is closed.
  Result<HttpResponse> detach(Transfer& transfer, Result<int> end);

  Endpoint endpoint_;
  Interrupt& interrupt_;
  std::unique_ptr<Handles> handles_;
};

// The URL without a trailing slash; invalid_field for anything but http(s)://host[:port][/prefix].
Result<std::string> parse_gateway_url(std::string_view url);
// Whether the URL's host is this machine.
bool is_loopback_url(std::string_view url);

}  // namespace cli
