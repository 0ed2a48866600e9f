// Tar archives made by hand for tests, so that they can hold what no tar program writes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace wire {

struct TarMember {
  std::string name;
  char type = '0';  // 0 file, 1 hard link, 2 link, 3 char device, 5 folder, 6 fifo
  std::string data;
  std::string target;
  unsigned mode = 0644;
  int64_t uid = 0;
  int64_t gid = 0;
  std::vector<std::pair<std::string, std::string>> pax;  // records of an extended header before it
};

class TarBuilder {
 public:
  TarBuilder& add(const TarMember& member) {
    if (!member.pax.empty()) {
      std::string records;
      for (const auto& [key, value] : member.pax) {
        records += pax_record(key, value);
      }
      block({.name = "PaxHeader", .type = 'x', .data = records});
    }
    block(member);
    return *this;
  }
  TarBuilder& file(std::string name, std::string data) {
    return add({.name = std::move(name), .data = std::move(data)});
  }
  TarBuilder& folder(std::string name, unsigned mode = 0755) {
    return add({.name = std::move(name), .type = '5', .mode = mode});
  }
  TarBuilder& link(std::string name, std::string target) {
    return add({.name = std::move(name), .type = '2', .target = std::move(target)});
  }
  TarBuilder& hardlink(std::string name, std::string target) {
    return add({.name = std::move(name), .type = '1', .target = std::move(target)});
  }
  [[nodiscard]] std::string finish() const { return bytes_ + std::string(1024, '\0'); }

 private:
  static constexpr size_t kBlock = 512;

  static std::string pax_record(const std::string& key, const std::string& value) {
    const std::string rest = " " + key + "=" + value + "\n";
    size_t size = rest.size();
    while (std::to_string(size).size() + rest.size() != size) {
      size = std::to_string(size).size() + rest.size();
    }
    return std::to_string(size) + rest;
  }
  static void octal(std::string& header, size_t at, size_t width, int64_t value) {
    for (size_t i = width - 1; i-- > 0; value /= 8) {
      header[at + i] = static_cast<char>('0' + value % 8);
    }
  }
  static void text(std::string& header, size_t at, size_t width, std::string_view value) {
    header.replace(at, std::min(width, value.size()), value.substr(0, width));
  }
  void block(const TarMember& member) {
    std::string header(kBlock, '\0');
    text(header, 0, 100, member.name);
    octal(header, 100, 8, member.mode);
    octal(header, 108, 8, member.uid);
    octal(header, 116, 8, member.gid);
    octal(header, 124, 12, static_cast<int64_t>(member.data.size()));
    octal(header, 136, 12, 1'700'000'000);
    header[156] = member.type;
    text(header, 157, 100, member.target);
    text(header, 257, 8, std::string_view("ustar\00000", 8));
    header.replace(148, 8, 8, ' ');
    int64_t sum = 0;
    for (const char c : header) {
      sum += static_cast<unsigned char>(c);
    }
    octal(header, 148, 7, sum);
    header[154] = '\0';
    bytes_ += header + member.data;
    bytes_.append((kBlock - member.data.size() % kBlock) % kBlock, '\0');
  }
  std::string bytes_;
};

}  // namespace wire
