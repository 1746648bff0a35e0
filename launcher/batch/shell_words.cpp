#include "batch/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

using Words = std::vector<std::string>;

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The length of the name at the beginning of NAME=VALUE; 0 if `word` is no assignment.
std::size_t name_of_assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(word[0])) != 0) return 0;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_name_character) ? equals : 0;
}

bool has(std::initializer_list<const char*> list, const std::string& word) {
  return std::ranges::find(list, word) != list.end();
}

class Reader {
 public:
  Reader(const std::string& text, const Words& arguments, const Variables& variables)
      : text_(text), arguments_(arguments), variables_(variables) {}

  std::vector<ShellCommand> read() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char take() {
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  std::string& word() {
    if (words_.empty() && !word_) first_line_ = line_;
    if (!word_) word_.emplace();
    return *word_;
  }

  void step() {
    const char c = take();
    if (c == '\\') {
      if (peek() == '\n')
        take();
      else if (peek() != '\0')
        word() += take();
    } else if (c == '\'') {
      word();
      while (peek() != '\0' && peek() != '\'') word() += take();
      ++at_;
    } else if (c == '"') {
      read_double_quotes();
    } else if (c == '$') {
      word() += expand();
    } else if (c == '`') {
      skip_to('`');
    } else if (c == '#' && !word_) {
      while (peek() != '\0' && peek() != '\n') ++at_;
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else if (c == '<' || c == '>') {
      begin_redirection(c);
    } else if (c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')') {
      end_command();
      if (c == '\n') skip_document();
    } else {
      word() += c;
    }
  }

  void read_double_quotes() {
    word();
    while (peek() != '\0' && peek() != '"') {
      const char c = take();
      if (c == '$')
        word() += expand();
      else if (c == '`')
        skip_to('`');
      else if (c == '\\' && peek() == '\n')
        take();
      else if (c == '\\' && peek() != '\0')
        word() += take();
      else
        word() += c;
    }
    ++at_;
  }

  void skip_to(char end) {
    word() += kUnknown;
    while (peek() != '\0' && peek() != end) take();
    ++at_;
  }

  /// The file of a redirection is no argument. Of "<<END", the lines up to END are no commands.
  void begin_redirection(char c) {
    const bool is_document = c == '<' && peek() == '<' && peek(1) != '<';
    if (word_ && word_->size() == 1 && std::isdigit(static_cast<unsigned char>((*word_)[0])) != 0) word_.reset();
    end_word();
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '-' || peek() == '|') ++at_;
    drops_word_ = true;
    names_document_ = is_document;
  }

  void skip_document() {
    if (document_.empty()) return;
    const std::string end = std::exchange(document_, "");
    for (std::string line; peek() != '\0' && trimmed(line) != end;) {
      line.clear();
      while (peek() != '\0' && peek() != '\n') line += take();
      if (peek() == '\n') take();
    }
  }

  /// Returns the value of what follows a $.
  std::string expand() {
    if (peek() == '(') {
      int depth = 0;
      do {
        const char c = take();
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      } while (depth > 0 && peek() != '\0');
      return {kUnknown};
    }
    if (peek() == '{') return expand_braces();
    std::string name;
    if (std::isdigit(static_cast<unsigned char>(peek())) != 0) name = take();
    while (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) == 0) {
      if (!is_name_character(peek())) break;
      name += take();
    }
    if (name.empty() && std::string("@*#?!$-").find(peek()) != std::string::npos && peek() != '\0') ++at_;
    return value_of(name).value_or(std::string{kUnknown});
  }

  std::string expand_braces() {
    std::string inner;
    ++at_;
    int depth = 1;
    while (peek() != '\0') {
      const char c = take();
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) break;
      inner += c;
    }
    const auto end = std::ranges::find_if_not(inner, is_name_character);
    const std::string name(inner.begin(), end);
    std::string rest(end, inner.end());
    if (const auto value = value_of(name))
      return rest.empty() || rest[0] == '-' || rest.starts_with(":-") ? *value : std::string{kUnknown};
    if (rest.starts_with(':')) rest.erase(0, 1);
    const bool has_default = rest.starts_with('-') && rest.find_first_of("$`") == std::string::npos;
    return has_default ? rest.substr(1) : std::string{kUnknown};
  }

  [[nodiscard]] std::optional<std::string> value_of(const std::string& name) const {
    const auto number = parse_number<std::size_t>(name);
    if (number)
      return *number >= 1 && *number <= arguments_.size() ? std::optional(arguments_[*number - 1]) : std::nullopt;
    return name.empty() ? std::nullopt : variables_.get(name);
  }

  void end_word() {
    if (!word_) return;
    if (std::exchange(drops_word_, false)) {
      if (std::exchange(names_document_, false)) document_ = *word_;
    } else {
      words_.push_back(*word_);
    }
    word_.reset();
  }

  void end_command() {
    end_word();
    drops_word_ = false;
    Words words = std::exchange(words_, {});
    if (words.size() > 1 && words[0] == "for") variables_.set(words[1], {kUnknown});
    while (!words.empty() &&
           has({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec"}, words[0]))
      words.erase(words.begin());
    Variables during = variables_;
    const bool exports = !words.empty() && has({"export", "local", "declare", "readonly"}, words[0]);
    const std::size_t first = exports ? 1 : 0;
    std::size_t count = first;
    for (; count < words.size(); ++count) {
      const std::size_t equals = name_of_assignment(words[count]);
      if (equals == 0) break;
      during.set(words[count].substr(0, equals), words[count].substr(equals + 1));
    }
    if (count == words.size() && count > first) {
      variables_ = during;
      if (!exports) return;
    } else if (!exports) {
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    }
    if (!words.empty()) commands_.push_back({first_line_, std::move(words), std::move(during)});
  }

  const std::string& text_;
  const Words& arguments_;
  Variables variables_;
  std::size_t at_ = 0;
  int line_ = 1;
  int first_line_ = 1;
  std::optional<std::string> word_;
  Words words_;
  bool drops_word_ = false;
  bool names_document_ = false;
  std::string document_;  // the last line of the here-document that begins after this line; empty: none
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> shell_commands(const std::string& script, const std::vector<std::string>& arguments,
                                         const Variables& variables) {
  return Reader(script, arguments, variables).read();
}

}  // namespace mn::launcher
