// The Prometheus text format, written family by family.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/histogram.h"

namespace server {

class MetricsText {
 public:
  // Names of families begin with `prefix`.
  explicit MetricsText(std::string prefix) : prefix_(std::move(prefix)) {}

  // `labels`: `a="b",c="d"`, or nothing.
  void counter(std::string_view name, std::string_view help) { family(name, help, "counter"); }
  void gauge(std::string_view name, std::string_view help) { family(name, help, "gauge"); }
  void histogram(std::string_view name, std::string_view help) { family(name, help, "histogram"); }
  // Of the family that was begun last.
  void value(std::string_view labels, int64_t number);
  void seconds(std::string_view labels, uint64_t us);
  void histogram_of(std::string_view labels, const base::Histogram& times);

  [[nodiscard]] std::string finish() { return std::move(out_); }

 private:
  void family(std::string_view name, std::string_view help, std::string_view type);
  void line(std::string_view suffix, std::string_view labels, std::string_view number);

  std::string prefix_;
  std::string name_;
  std::string out_;
};

// One label; what would end its value is escaped.
std::string label(std::string_view name, std::string_view value);

}  // namespace server
