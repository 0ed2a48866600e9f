#include "cli/upgrade.h"

#include <poll.h>

#include "cli/api.h"
#include "cli/sandbox_target.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr int kSwitchingProtocols = 101;
constexpr size_t kReadBytes = 64UL * 1024;
constexpr size_t kRefusalBytesMax = 64UL * 1024;

struct UrlParts {
  std::string host;  // with the port, as a Host header has it
  std::string prefix;
};
UrlParts split_url(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);  // parse_gateway_url has made sure
  const size_t slash = url.find('/');
  return {std::string(url.substr(0, slash)),
          slash == url.npos ? "" : std::string(url.substr(slash))};
}

}  // namespace

Result<Upgrade> Upgrade::begin(const Endpoint& endpoint, std::string target,
                               std::string_view protocol, const Headers& headers,
                               Interrupt& interrupt) {
  RETURN_IF_ERROR(check_target(target));
  ASSIGN_OR_RETURN(auto connection, Connection::open(endpoint, interrupt));
  const UrlParts url = split_url(endpoint.url);
  auto request = wire::http::HeadBuilder::request("GET", url.prefix + request_target(target));
  request.add("Host", url.host)
      .add("User-Agent", "sandbox-cli/" SANDBOX_VERSION)
      .add("Connection", "Upgrade")
      .add("Upgrade", protocol);
  for (const auto& [name, value] : headers) {
    request.add(name, value);
  }
  if (!endpoint.token.empty()) {
    request.add("Authorization", "Bearer " + endpoint.token.reveal());  // as every request
  }
  return Upgrade(std::move(connection), std::move(target), request.finish());
}

short Upgrade::wanted() const { return out_.empty() ? POLLIN : POLLIN | POLLOUT; }

Result<void> Upgrade::read_head() {
  ASSIGN_OR_RETURN(const auto size, wire::http::find_head(early_));
  if (!size) {
    return {};
  }
  auto response = wire::http::parse_response(std::string_view(early_).substr(0, *size), "GET");
  if (!response) {
    return fail(ErrorCode::internal, "the answer to ", target_, " is not HTTP");
  }
  early_.erase(0, *size);
  response_ = std::move(*response);
  if (response_->status != kSwitchingProtocols) {
    refusal_.emplace(*response_);
  }
  return {};
}

std::unexpected<base::Error> Upgrade::refused() const {
  return std::unexpected(
      parse_error_answer(HttpResponse{.status = response_->status, .body = refusal_body_}));
}

Result<bool> Upgrade::step() {
  if (!out_.empty()) {
    ASSIGN_OR_RETURN(const size_t sent, connection_->send(out_));
    out_.erase(0, sent);
  }
  std::string buffer(kReadBytes, '\0');
  while (!response_ || refusal_) {
    while (refusal_ && !early_.empty() && !refusal_->finished()) {
      const auto piece = refusal_->next(early_);
      if (!piece) {
        return refused();
      }
      if (piece->consumed == 0) {
        break;
      }
      refusal_body_ += piece->payload;
      early_.erase(0, piece->consumed);
    }
    if (refusal_ && (refusal_->finished() || refusal_body_.size() >= kRefusalBytesMax)) {
      return refused();
    }
    const auto got = connection_->receive(buffer);
    if (!got && refusal_) {
      return refused();  // what there is must do
    }
    if (!got) {
      return std::unexpected(got.error());
    }
    if (*got == 0) {
      return false;
    }
    early_.append(buffer, 0, *got);
    if (!response_) {
      RETURN_IF_ERROR(read_head());
    }
  }
  return true;
}

Result<void> Upgrade::wait(Interrupt& interrupt) {
  const auto end = std::chrono::steady_clock::now() + kUpgradeTime;
  while (true) {
    ASSIGN_OR_RETURN(const bool done, step());
    if (done) {
      return {};
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    ASSIGN_OR_RETURN(const bool ready,
                     interrupt.wait_for(fd(), wanted(), static_cast<int>(left.count())));
    if (!ready) {
      return fail(ErrorCode::deadline_exceeded, "the gateway did not answer ", target_);
    }
  }
}

}  // namespace cli
