#include "cli/http_client.h"

#include <curl/curl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "cli/sandbox_target.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr long kConnectMillisecondsMax = 10'000;
// How often the loop looks up without traffic: silence is counted in seconds.
constexpr int kPollMilliseconds = 500;
// The same while libcurl has no descriptor to wait for (it looks a name up).
constexpr int kNoDescriptorMilliseconds = 20;
// Headers of one answer; ours have about a dozen short ones.
constexpr size_t kHeadersMax = 200;

struct HeaderList {
  curl_slist* list = nullptr;
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(list); }
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

}  // namespace

// What libcurl's callbacks share with us during one request.
struct HttpClient::Transfer {
  const HttpRequest& request;
  const BodySink& sink;
  const TransferObserver& observer;
  Interrupt& interrupt;
  HttpResponse response;
  Result<void> outcome;
  TransferCounts counts;
  std::chrono::steady_clock::time_point last_activity = std::chrono::steady_clock::now();
  HeaderList headers;
  char detail[CURL_ERROR_SIZE] = "";
};

struct HttpClient::Handles {
  // A request in the background owns what others borrow.
  struct Background {
    HttpRequest request;
    BodySink sink;
    TransferObserver observer;
    Transfer transfer;
    Background(HttpRequest its_request, BodySink its_sink, Interrupt& interrupt)
        : request(std::move(its_request)),
          sink(std::move(its_sink)),
          transfer{.request = request, .sink = sink, .observer = observer, .interrupt = interrupt} {
    }
  };

  CURL* easy = curl_easy_init();
  CURLM* multi = curl_multi_init();
  std::unique_ptr<Background> background;
  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }

  static size_t on_header(char* bytes, size_t size, size_t count, void* user);
  static size_t on_body(char* bytes, size_t size, size_t count, void* user);
  static size_t on_read(char* buffer, size_t size, size_t count, void* user);
  static int on_progress(void* user, curl_off_t receive_total, curl_off_t received,
                         curl_off_t send_total, curl_off_t sent);
  void set_body(Transfer& transfer) const;
  // One turn of libcurl: the code of the request's end, nullopt while it goes on.
  Result<std::optional<CURLcode>> turn();
  // Turns until the request ends; the code of its end, or an error of our own.
  Result<CURLcode> perform(Transfer& transfer);
};

size_t HttpClient::Handles::on_header(char* bytes, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, size * count);
  if (line.starts_with("HTTP/")) {  // also after "100 Continue": start over
    transfer.response.headers.clear();
    const size_t blank = line.find(' ');
    const auto digits = blank == line.npos ? std::string_view{} : line.substr(blank + 1, 3);
    transfer.response.status = base::parse_number<int>(digits).value_or(0);
    return size * count;
  }
  const size_t colon = line.find(':');
  if (colon != line.npos && transfer.response.headers.size() < kHeadersMax) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n')) {
      value.remove_suffix(1);
    }
    transfer.response.headers.emplace_back(base::lower(line.substr(0, colon)),
                                           std::string(base::trim(value)));
  }
  return size * count;
}

size_t HttpClient::Handles::on_body(char* bytes, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view piece(bytes, size * count);
  if (transfer.sink && transfer.response.status / 100 == 2) {
    transfer.outcome = transfer.sink(transfer.response, piece);
  } else if (transfer.response.body.size() + piece.size() > kAnswerBytesMax) {
    transfer.outcome = fail(ErrorCode::body_too_large, "the gateway's answer is too long");
  } else {
    transfer.response.body += piece;
  }
  return transfer.outcome ? piece.size() : CURL_WRITEFUNC_ERROR;
}

size_t HttpClient::Handles::on_read(char* buffer, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.request.body_source) {
    const auto made = transfer.request.body_source({buffer, size * count});
    transfer.last_activity = std::chrono::steady_clock::now();
    if (!made) {
      transfer.outcome = std::unexpected(made.error());
    }
    return made ? *made : CURL_READFUNC_ABORT;
  }
  transfer.outcome = transfer.interrupt.wait_for(transfer.request.body_fd, POLLIN);
  if (!transfer.outcome) {
    return CURL_READFUNC_ABORT;
  }
  // Waiting for our own input is not the peer's silence.
  transfer.last_activity = std::chrono::steady_clock::now();
  while (true) {
    const ssize_t got = ::read(transfer.request.body_fd, buffer, size * count);
    if (got >= 0) {
      return static_cast<size_t>(got);
    }
    if (errno != EINTR) {
      transfer.outcome = base::fail_errno(errno, "read what is to be sent");
      return CURL_READFUNC_ABORT;
    }
  }
}

int HttpClient::Handles::on_progress(void* user, curl_off_t receive_total, curl_off_t received,
                                     curl_off_t send_total, curl_off_t sent) {
  auto& transfer = *static_cast<Transfer*>(user);
  const TransferCounts counts{sent, send_total, received, receive_total};
  if (counts.sent != transfer.counts.sent || counts.received != transfer.counts.received) {
    transfer.last_activity = std::chrono::steady_clock::now();
  }
  transfer.counts = counts;
  if (transfer.observer) {
    transfer.observer(counts);
  }
  return 0;
}

void apply_trust(void* easy, const Trust& trust) {
  if (!trust.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, trust.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }
  if (trust.insecure) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

base::Error transport_error(int code, const char* detail, const std::string& url) {
  const std::string_view text =
      detail[0] != '\0' ? detail : curl_easy_strerror(static_cast<CURLcode>(code));
  const auto error = [&](ErrorCode kind, std::string_view hint) {
    return base::Error{.code = kind, .message = base::cat("request to ", url, ": ", text, hint)};
  };
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      // Nothing that asking again mends.
      return error(ErrorCode::permission_denied,
                   " (--ca-file FILE names the authority that the gateway's certificate is of)");
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
      return error(ErrorCode::unavailable, "");
    default:
      return error(ErrorCode::connection_closed, "");
  }
}

void HttpClient::Handles::set_body(Transfer& transfer) const {
  const HttpRequest& request = transfer.request;
  if (request.body_fd >= 0 || request.body_source) {
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, &transfer);
    if (request.body_size) {
      curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(*request.body_size));
    }
  } else if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  }
  if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

Result<std::optional<CURLcode>> HttpClient::Handles::turn() {
  int running = 0;
  if (const CURLMcode code = curl_multi_perform(multi, &running); code != CURLM_OK) {
    return fail(ErrorCode::internal, "libcurl: ", curl_multi_strerror(code));
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) {
      return message->data.result;
    }
  }
  if (running == 0) {
    return fail(ErrorCode::internal, "libcurl lost the request");
  }
  return std::nullopt;
}

Result<CURLcode> HttpClient::Handles::perform(Transfer& transfer) {
  while (true) {
    ASSIGN_OR_RETURN(const auto end, turn());
    if (end) {
      return *end;
    }
    if (!transfer.request.ignore_signals) {
      RETURN_IF_ERROR(transfer.interrupt.check());
    }
    const auto silence = std::chrono::steady_clock::now() - transfer.last_activity;
    if (silence > std::chrono::seconds(transfer.request.silence_seconds_max)) {
      return fail(ErrorCode::deadline_exceeded, "no answer from the gateway for ",
                  transfer.request.silence_seconds_max, " s");
    }
    curl_waitfd signals{transfer.interrupt.fd(), CURL_WAIT_POLLIN, 0};
    const bool watch = transfer.interrupt.fd() >= 0 && !transfer.request.ignore_signals;
    curl_multi_poll(multi, &signals, watch ? 1U : 0U, kPollMilliseconds, nullptr);
  }
}

namespace {

std::string host_of(std::string_view url) {
  const size_t scheme = url.find("://");
  std::string_view rest = scheme == url.npos ? url : url.substr(scheme + 3);
  rest = rest.substr(0, rest.find('/'));
  if (rest.starts_with('[')) {
    return std::string(rest.substr(1, rest.find(']') - 1));
  }
  return base::lower(rest.substr(0, rest.find(':')));
}

Result<void> check_request(const HttpRequest& request) {
  RETURN_IF_ERROR(check_target(request.target));
  const auto is_json = [](const auto& header) { return header.second == "application/json"; };
  if (std::ranges::any_of(request.headers, is_json) && !base::is_utf8(request.body)) {
    return base::fail_field("arguments",
                            "arguments, variables and names must be UTF-8: the API takes text");
  }
  return {};
}

}  // namespace

const std::string* HttpResponse::find(std::string_view name) const {
  const auto found =
      std::ranges::find(headers, name, [](const auto& h) -> std::string_view { return h.first; });
  return found == headers.end() ? nullptr : &found->second;
}

HttpClient::HttpClient(Endpoint endpoint, Interrupt& interrupt)
    : endpoint_(std::move(endpoint)), interrupt_(interrupt) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  handles_ = std::make_unique<Handles>();
}

HttpClient::~HttpClient() { abandon(); }

Result<HttpResponse> HttpClient::send(const HttpRequest& request, const BodySink& sink,
                                      const TransferObserver& observer) {
  if (!request.ignore_signals) {
    RETURN_IF_ERROR(interrupt_.check());
  }
  RETURN_IF_ERROR(check_request(request));
  Transfer transfer{
      .request = request, .sink = sink, .observer = observer, .interrupt = interrupt_};
  attach(transfer);
  return detach(transfer, handles_->perform(transfer));
}

void HttpClient::begin(HttpRequest request, BodySink sink) {
  handles_->background =
      std::make_unique<Handles::Background>(std::move(request), std::move(sink), interrupt_);
  attach(handles_->background->transfer);
}

bool HttpClient::busy() const { return handles_->background != nullptr; }

int HttpClient::add_waits(std::vector<pollfd>& waits) {
  if (!busy()) {
    return -1;
  }
  fd_set in, out, other;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_ZERO(&other);
  int last = -1;
  curl_multi_fdset(handles_->multi, &in, &out, &other, &last);
  for (int fd = 0; fd <= last; ++fd) {
    const int events = (FD_ISSET(fd, &in) ? POLLIN : 0) | (FD_ISSET(fd, &out) ? POLLOUT : 0);
    if (events != 0) {
      waits.push_back({fd, static_cast<short>(events), 0});
    }
  }
  long milliseconds = -1;
  curl_multi_timeout(handles_->multi, &milliseconds);
  const long most = last < 0 ? kNoDescriptorMilliseconds : kPollMilliseconds;
  return static_cast<int>(milliseconds < 0 ? most : std::min(milliseconds, most));
}

std::optional<Result<HttpResponse>> HttpClient::step() {
  auto end = handles_->turn();
  if (end && !*end) {
    return std::nullopt;
  }
  const auto background = std::move(handles_->background);
  if (!end) {
    return detach(background->transfer, std::unexpected(std::move(end).error()));
  }
  return detach(background->transfer, **end);
}

void HttpClient::abandon() {
  if (const auto background = std::move(handles_->background)) {
    curl_multi_remove_handle(handles_->multi, handles_->easy);
  }
}

void HttpClient::attach(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  CURL* easy = handles_->easy;
  curl_easy_reset(easy);
  if (!endpoint_.token.empty()) {  // the request needs the secret
    transfer.headers.add("Authorization: Bearer " + endpoint_.token.reveal());
  }
  for (const auto& [name, value] : request.headers) {
    transfer.headers.add(base::cat(name, ": ", value));
  }
  const std::string full_url = endpoint_.url + request_target(request.target);
  curl_easy_setopt(easy, CURLOPT_URL, full_url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandbox-cli/" SANDBOX_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer.headers.list);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMillisecondsMax);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request.fresh_connection ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer.detail);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, Handles::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, Handles::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, Handles::on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
  if (request.accepts_coded) {
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");  // all that libcurl can take off
  }
  if (is_loopback_url(endpoint_.url)) {  // a proxy elsewhere cannot reach this machine's loopback
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  }
  apply_trust(easy, endpoint_.trust);
  handles_->set_body(transfer);
  curl_multi_add_handle(handles_->multi, easy);
}

Result<HttpResponse> HttpClient::detach(Transfer& transfer, Result<int> end) {
  // Removing an unfinished transfer closes its connection: that is what cancels a command.
  curl_multi_remove_handle(handles_->multi, handles_->easy);
  if (!transfer.outcome) {
    return std::unexpected(std::move(transfer.outcome).error());
  }
  if (!end) {
    return std::unexpected(std::move(end).error());
  }
  // A server may refuse an upload with an answer before it has read all of it.
  const bool answered_early = *end == CURLE_SEND_ERROR && transfer.response.status >= 400;
  if (*end != CURLE_OK && !answered_early) {
    return std::unexpected(transport_error(*end, transfer.detail, endpoint_.url));
  }
  return std::move(transfer.response);
}

Result<std::string> parse_gateway_url(std::string_view url) {
  url = base::trim(url);
  while (url.ends_with('/')) {
    url.remove_suffix(1);
  }
  const bool scheme = url.starts_with("http://") || url.starts_with("https://");
  const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7f; });
  if (!scheme || !plain || url.contains('@') || url.contains('?') || url.contains('#') ||
      host_of(url).empty()) {
    return base::fail_field("url", "'", url, "' is not a gateway URL like https://host:port");
  }
  return std::string(url);
}

bool is_loopback_url(std::string_view url) {
  const std::string host = host_of(url);
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace cli
