// One more of something while this lives: a connection, a channel, a question.
#pragma once

#include <cstddef>

namespace base {

class Counted {
 public:
  explicit Counted(size_t& count) : count_(count) { ++count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --count_; }

 private:
  size_t& count_;
};

}  // namespace base
