// The gateway's API as the CLI uses it: JSON in, JSON or the gateway's own error out. Repeats what
// is safe to repeat (reads, deletions, creations with a key) when the connection fails or the
// gateway says later; never a command. Owned by main; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/http_client.h"
#include "wire/json.h"

namespace cli {

// The most the gateway gives at once.
inline constexpr size_t kPageItemsMax = 1000;

enum class Repeat { yes, no };

class Api {
 public:
  Api(HttpClient& http, Interrupt& interrupt) : http_(http), interrupt_(interrupt) {}

  // The answer of a 2xx; the gateway's error otherwise.
  Result<HttpResponse> call(const HttpRequest& request, Repeat repeat, const BodySink& sink = {},
                            const TransferObserver& observer = {});
  // The same with the answer's body as JSON; null for an empty one.
  Result<wire::json::Value> call_json(const HttpRequest& request, Repeat repeat);
  Result<wire::json::Object> get_object(const std::string& target, int wait_seconds = 0);
  // All items of a list, page by page, at most `items_max`; `page_items` 0 leaves the size of a
  // page to the gateway.
  Result<wire::json::Array> get_list(const std::string& path, const std::string& query,
                                     size_t items_max = SIZE_MAX,
                                     size_t page_items = kPageItemsMax);
  // Deletes and says whether it is gone (204, 404) or still going (202).
  Result<bool> remove(const std::string& target, int wait_seconds);

 private:
  HttpClient& http_;
  Interrupt& interrupt_;
};

// Whether the same request may succeed a little later: lost connections, a gateway that restarts,
// overload.
bool is_passing(const base::Error& error);
// The error of an answer outside 2xx: the gateway's code and message, or the status when the body
// is no error of ours (a proxy's page).
base::Error parse_error_answer(const HttpResponse& response);
// "key=value" encoded; joined by '&' onto what is there.
void add_parameter(std::string& query, std::string_view key, std::string_view value);
// percent_encode that encodes '/' too: one path segment or parameter.
std::string encode_segment(std::string_view text);

}  // namespace cli
