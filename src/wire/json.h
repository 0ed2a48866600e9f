// JSON at the edge: text to values with limits, and a reader that names what is wrong with a
// field. Boost.JSON does the parsing; nothing else of Boost is seen outside wire/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wire::json {

using Array = boost::json::array;
using Object = boost::json::object;
using Value = boost::json::value;
using base::Result;

inline constexpr size_t kDepthMax = 32;

// 400 malformed for what is not one JSON text in UTF-8 (trailing bytes, depth over kDepthMax,
// lone surrogates included).
Result<Value> parse(std::string_view text);
// The same, and it must be an object.
Result<Object> parse_object(std::string_view text);
// The same, and malformed where any object in it has a key twice: of what is signed, no two readers
// may read two things.
Result<Object> parse_object_of_unique_keys(std::string_view text);
std::string serialize(const Value& value);

// Reads the fields of one object. Each getter notes the name as known and checks the type; null
// counts as absent. finish() refuses what nobody asked for.
//   json::Reader reader(object);
//   ASSIGN_OR_RETURN(auto cpus, reader.required<double>("cpus"));
//   RETURN_IF_ERROR(reader.finish());
// T: std::string, int64_t, double, bool, Object, Array, Value, std::vector<std::string>,
//    std::map<std::string, std::string>.
class Reader {
 public:
  // `prefix` names the object in messages and details.field: "network" gives "network.mode".
  explicit Reader(const Object& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  template <typename T>
  Result<std::optional<T>> optional(std::string_view name);
  template <typename T>
  Result<T> required(std::string_view name) {
    ASSIGN_OR_RETURN(auto value, optional<T>(name));
    if (!value) {
      return missing(name);
    }
    return std::move(*value);
  }
  // 422 unknown_field naming the first field that no getter asked for.
  Result<void> finish() const;
  [[nodiscard]] std::string path(std::string_view name) const;

 private:
  const Value* find(std::string_view name);
  std::unexpected<base::Error> missing(std::string_view name) const;
  std::unexpected<base::Error> wrong_type(std::string_view name, std::string_view wanted) const;

  const Object& object_;
  std::string prefix_;
  std::vector<std::string> known_;
};

// The body of every error answer: {"error":{"code","message","details"}}.
std::string error_body(const base::Error& error, std::string_view request_id);

}  // namespace wire::json
