#include "compose/ports.h"

#include <algorithm>

#include "base/text.h"
#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Value;

constexpr size_t kPortsMax = 256;

class Ports {
 public:
  // "80", "8080:80", "127.0.0.1:8080:80/udp", "3000-3005".
  Result<void> add_text(std::string_view text, std::string_view field) {
    std::string_view protocol = "tcp";
    if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
      protocol = text.substr(slash + 1);
      text = text.substr(0, slash);
    }
    if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
      text = text.substr(colon + 1);
    }
    const size_t dash = std::min(text.find('-'), text.size());
    const auto first = base::parse_number<uint16_t>(text.substr(0, dash));
    const auto last =
        dash == text.size() ? first : base::parse_number<uint16_t>(text.substr(dash + 1));
    const bool known = protocol == "tcp" || protocol == "udp" || protocol == "sctp";
    if (!first || !last || *first == 0 || *last < *first || !known) {
      return refuse(field, "must be a port as 80, 8080:80 or 53:53/udp");
    }
    for (uint32_t port = *first; port <= *last; ++port) {
      const std::string name = base::cat(port, "/", protocol);
      if (std::ranges::find(all_, name) == all_.end()) {
        all_.push_back(name);
      }
      if (all_.size() > kPortsMax) {
        return refuse(field, "has more than ", kPortsMax, " ports");
      }
    }
    return {};
  }

  Result<void> add_all(const Value& value, const std::string& field) {
    if (!value.is_array()) {
      return refuse(field, "must be a list");
    }
    size_t number = 0;
    for (const Value& item : value.get_array()) {
      const std::string where = base::cat(field, ".", number++);
      if (item.is_object()) {
        RETURN_IF_ERROR(add_long(item.get_object(), where));
        continue;
      }
      ASSIGN_OR_RETURN(const std::string text, read_text(item, where));
      RETURN_IF_ERROR(add_text(text, where));
    }
    return {};
  }

  std::vector<std::string> take() { return std::move(all_); }

 private:
  Result<void> add_long(const wire::json::Object& port, const std::string& field) {
    std::string target;
    std::string protocol = "tcp";
    for (const auto& [key, value] : port) {
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (key == "target") {
        ASSIGN_OR_RETURN(target, read_text(value, where));
      } else if (key == "protocol") {
        ASSIGN_OR_RETURN(protocol, read_text(value, where));
      } else if (key != "published" && key != "mode" && key != "host_ip" && key != "name" &&
                 key != "app_protocol") {
        return refuse(where, "is not supported");
      }
    }
    return add_text(base::cat(target, "/", protocol), field);
  }

  std::vector<std::string> all_;
};

}  // namespace

Result<std::vector<std::string>> read_ports(const std::string& service, const Value* ports,
                                            const Value* expose) {
  Ports all;
  if (ports != nullptr) {
    RETURN_IF_ERROR(all.add_all(*ports, base::cat("services.", service, ".ports")));
  }
  if (expose != nullptr) {
    RETURN_IF_ERROR(all.add_all(*expose, base::cat("services.", service, ".expose")));
  }
  return all.take();
}

}  // namespace compose
