#include "ssh/words.h"

#include <algorithm>

namespace ssh {
namespace {

constexpr std::string_view kPatternCharacters = "*?[]~\\";
// What only a shell understands: then it is its command.
constexpr std::string_view kShellCharacters = "|&;<>()$`\n#{}";

bool is_pattern(char c) { return kPatternCharacters.contains(c); }

// Splits as a shell does: blanks, quotes, backslashes; nothing is replaced.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::string>> split() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      const bool fits = c == ' ' || c == '\t' ? end_word() : take(c);
      if (!fits) {
        return std::nullopt;
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  bool end_word() {
    if (in_word_) {
      words_.push_back(std::move(word_));
      word_.clear();
    }
    in_word_ = false;
    return true;
  }

  // False: the line is not to be understood without a shell.
  bool take(char c) {
    in_word_ = true;
    if (c == '\'' || c == '"') {
      return take_quoted(c);
    }
    if (c == '\\') {
      if (at_ == text_.size()) {
        return false;
      }
      add_quoted(text_[at_++]);
      return true;
    }
    word_ += c;
    return !kShellCharacters.contains(c);
  }

  bool take_quoted(char quote) {
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (quote == '"' && (c == '$' || c == '`')) {
        return false;
      }
      if (quote == '"' && c == '\\' && at_ < text_.size() &&
          std::string_view("\"\\$`").contains(text_[at_])) {
        add_quoted(text_[at_++]);
        continue;
      }
      add_quoted(c);
    }
    return at_++ < text_.size();
  }

  void add_quoted(char c) {
    if (is_pattern(c)) {
      word_ += '\\';
    }
    word_ += c;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> words_;
};

}  // namespace

std::optional<std::vector<std::string>> scp_arguments(std::string_view command) {
  if (!command.starts_with("scp ")) {
    return std::nullopt;
  }
  auto words = Splitter(command).split();
  if (!words) {
    return std::nullopt;
  }
  words->erase(words->begin());
  bool is_server = false;
  for (const std::string& word : *words) {
    if (word == "--" || !word.starts_with('-') || word.size() == 1) {
      break;
    }
    if (!std::ranges::all_of(word.substr(1),
                             [](char c) { return std::string_view("tfrpdvq").contains(c); })) {
      return std::nullopt;
    }
    is_server = is_server || word.contains('t') || word.contains('f');
  }
  return is_server ? std::move(words) : std::nullopt;
}

}  // namespace ssh
