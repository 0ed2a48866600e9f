#include "definition/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace definition {
namespace {

using base::ErrorCode;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

struct Parser {
  Parser() { yaml_parser_initialize(&parser); }
  ~Parser() { yaml_parser_delete(&parser); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  yaml_parser_t parser{};
};

struct Event {
  Event() = default;
  ~Event() { yaml_event_delete(&event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  yaml_event_t event{};
};

std::unexpected<base::Error> fail_at(size_t line, std::string_view what) {
  return base::fail(ErrorCode::malformed, "line ", line + 1, ": ", what);
}

std::string text_of(const yaml_char_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// A plain scalar that looks like a number of JSON (a sign of plus and a leading dot aside).
bool looks_like_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789eE") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

Value plain_value(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") {
    return true;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return false;
  }
  if (looks_like_number(text)) {
    const std::string_view digits =
        text.front() == '+' ? std::string_view(text).substr(1) : std::string_view(text);
    if (const auto integer = base::parse_number<int64_t>(digits)) {
      return *integer;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size() && std::isfinite(number) &&
        digits.find_first_of(".eE") != std::string_view::npos) {
      return number;
    }
  }
  return Value(text);
}

// What has begun and not ended, from the outermost in.
struct Open {
  Value value;      // array or object
  std::string key;  // of an object's next value
  bool has_key = false;
  std::string anchor;
  std::string tag;
  size_t line = 0;
};

class Reader {
 public:
  Reader(std::string_view text, std::span<const std::string_view> tags) : tags_(tags) {
    yaml_parser_set_encoding(&source_.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&source_.parser,
                                 reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }

  Result<Value> read() {
    for (;;) {
      Event event;
      if (yaml_parser_parse(&source_.parser, &event.event) == 0) {
        const char* problem = source_.parser.problem;
        return fail_at(source_.parser.problem_mark.line,
                       problem == nullptr ? "no YAML" : std::string_view(problem));
      }
      if (event.event.type == YAML_STREAM_END_EVENT) {
        if (!result_) {
          return base::fail(ErrorCode::malformed, "the text is empty");
        }
        return std::move(*result_);
      }
      RETURN_IF_ERROR(take(event.event));
    }
  }

 private:
  Result<void> take(const yaml_event_t& event) {
    const size_t line = event.start_mark.line;
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        return result_ ? Result<void>(fail_at(line, "more than one document")) : Result<void>{};
      case YAML_SCALAR_EVENT:
        return take_scalar(event);
      case YAML_ALIAS_EVENT:
        return take_alias(event);
      case YAML_SEQUENCE_START_EVENT:
        return begin(Array{}, event.data.sequence_start.anchor, event.data.sequence_start.tag,
                     line);
      case YAML_MAPPING_START_EVENT:
        return begin(Object{}, event.data.mapping_start.anchor, event.data.mapping_start.tag, line);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT: {
        Open done = std::move(open_.back());
        open_.pop_back();
        return put(with_tag(std::move(done.value), done.tag), done.anchor, done.line);
      }
      default:
        return {};
    }
  }

  Result<void> begin(Value value, const yaml_char_t* anchor, const yaml_char_t* tag, size_t line) {
    ASSIGN_OR_RETURN(std::string name, tag_of(tag, line));
    if (open_.size() >= kDepthMax) {
      return fail_at(line, "nested too deeply");
    }
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key) {
      return fail_at(line, "a key must be a text");
    }
    open_.push_back(
        {.value = std::move(value),
         .key = {},
         .anchor = anchor == nullptr ? "" : std::string(reinterpret_cast<const char*>(anchor)),
         .tag = std::move(name),
         .line = line});
    return count(1, line);
  }

  Result<void> take_scalar(const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    const size_t line = event.start_mark.line;
    ASSIGN_OR_RETURN(const std::string tag, tag_of(scalar.tag, line));
    std::string text = text_of(scalar.value, scalar.length);
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key) {
      if (!tag.empty()) {
        return fail_at(line, "a key takes no tag");
      }
      return take_key(std::move(text), line);
    }
    RETURN_IF_ERROR(count(1, line));
    const bool is_plain = scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const std::string anchor =
        scalar.anchor == nullptr ? "" : reinterpret_cast<const char*>(scalar.anchor);
    return put(with_tag(is_plain ? plain_value(text) : Value(text), tag), anchor, line);
  }

  Result<std::string> tag_of(const yaml_char_t* tag, size_t line) const {
    std::string name = tag == nullptr ? "" : reinterpret_cast<const char*>(tag);
    if (!name.empty() && std::ranges::find(tags_, name) == tags_.end()) {
      return fail_at(line, base::cat("the tag '", name, "' is not taken"));
    }
    return name;
  }

  static Value with_tag(Value value, const std::string& tag) {
    return tag.empty() ? std::move(value) : Value(Object{{tag, std::move(value)}});
  }

  Result<void> take_key(std::string text, size_t line) {
    Open& object = open_.back();
    if (object.value.get_object().contains(text)) {
      return fail_at(line, base::cat("the key '", text, "' stands twice"));
    }
    object.key = std::move(text);
    object.has_key = true;
    return {};
  }

  Result<void> take_alias(const yaml_event_t& event) {
    const size_t line = event.start_mark.line;
    if (!open_.empty() && open_.back().value.is_object() && !open_.back().has_key) {
      return fail_at(line, "a key must be a text");
    }
    const std::string name = reinterpret_cast<const char*>(event.data.alias.anchor);
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) {
      return fail_at(line, base::cat("'*", name, "' names nothing before it"));
    }
    RETURN_IF_ERROR(count(found->second.values, line));
    if (open_.size() + found->second.depth > kDepthMax) {
      return fail_at(line, "nested too deeply");
    }
    return put(found->second.value, "", line);
  }

  // The value is whole: into what surrounds it.
  Result<void> put(Value value, const std::string& anchor, size_t line) {
    if (!anchor.empty()) {
      Anchored kept{.value = value, .values = values_in(value), .depth = depth_of(value)};
      // The copies that are kept count as well.
      RETURN_IF_ERROR(count(kept.values, line));
      anchors_.insert_or_assign(anchor, std::move(kept));
    }
    if (open_.empty()) {
      result_ = std::move(value);
      return {};
    }
    Open& outer = open_.back();
    if (outer.value.is_array()) {
      outer.value.get_array().push_back(std::move(value));
    } else {
      outer.value.get_object()[outer.key] = std::move(value);
      outer.has_key = false;
    }
    return {};
  }

  Result<void> count(size_t values, size_t line) {
    values_ += values;
    if (values_ > kValuesMax) {
      return fail_at(line, base::cat("more than ", kValuesMax, " values"));
    }
    return {};
  }

  static size_t values_in(const Value& value) {
    size_t out = 1;
    if (value.is_array()) {
      for (const Value& item : value.get_array()) {
        out += values_in(item);
      }
    } else if (value.is_object()) {
      for (const auto& field : value.get_object()) {
        out += values_in(field.value());
      }
    }
    return out;
  }
  static size_t depth_of(const Value& value) {
    size_t inner = 0;
    if (value.is_array()) {
      for (const Value& item : value.get_array()) {
        inner = std::max(inner, depth_of(item));
      }
      return inner + 1;
    }
    if (value.is_object()) {
      for (const auto& field : value.get_object()) {
        inner = std::max(inner, depth_of(field.value()));
      }
      return inner + 1;
    }
    return 0;
  }

  struct Anchored {
    Value value;
    size_t values = 0;
    size_t depth = 0;
  };

  Parser source_;
  std::span<const std::string_view> tags_;
  std::vector<Open> open_;
  std::map<std::string, Anchored> anchors_;
  std::optional<Value> result_;
  size_t values_ = 0;
};

}  // namespace

Result<Value> parse_yaml(std::string_view text, std::span<const std::string_view> tags) {
  if (text.size() > kBytesMax) {
    return base::fail(ErrorCode::malformed, "the text exceeds ", kBytesMax, " bytes");
  }
  // libyaml takes other encodings than ours by their byte order marks.
  if (!base::is_utf8(text)) {
    return base::fail(ErrorCode::malformed, "the text is not UTF-8");
  }
  return Reader(text, tags).read();
}

}  // namespace definition
