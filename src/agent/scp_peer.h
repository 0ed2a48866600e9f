// The other end of an scp conversation on two descriptors. One thread, blocking. Once it is lost
// (end of input, a line too long, nobody reads) every call says so. Bounds: kLineBytesMax of a
// line, one buffer of input.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace agent::scp {

class Peer {
 public:
  Peer(int input, int output);

  // Without its newline; false at the end.
  bool read_line(std::string& line);
  // At most that many bytes of what comes, valid until the next call; empty at the end.
  std::string_view read_some(size_t bytes_max);
  bool write(std::string_view bytes);
  bool acknowledge() { return write(std::string_view("\0", 1)); }
  // The peer's answer to what was sent: true if it agrees. What it complains of is counted.
  bool is_acknowledged();
  // Tells the peer what went wrong here.
  void complain(std::string_view text);
  void note_error() { ++errors_; }

  [[nodiscard]] bool is_lost() const { return lost_; }
  [[nodiscard]] size_t errors() const { return errors_; }

 private:
  bool fill();

  int input_;
  int output_;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t errors_ = 0;
  bool lost_ = false;
};

}  // namespace agent::scp
