#include "batch/shell_words.hpp"

#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_any_of(const char* list, char c) { return c != '\0' && std::strchr(list, c) != nullptr; }

/// NAME=VALUE
bool is_assignment(const std::string& word) {
  const auto end = std::ranges::find_if_not(word, is_name_character);
  return end != word.begin() && end != word.end() && *end == '=' && !is_digit(word[0]);
}

class ShellReader {
 public:
  /// `is_script` is false for option_words().
  ShellReader(const std::string& text, const std::vector<std::string>& arguments, Variables variables, bool is_script)
      : text_(text), arguments_(arguments), variables_(std::move(variables)), is_script_(is_script) {}

  std::vector<ShellCommand> read() {
    while (!is_at_end()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  [[nodiscard]] bool is_at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char take() {
    if (is_at_end()) return '\0';
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  /// Takes the text up to `end`, and `end`. With `begin`, pairs of `begin` and `end` belong to the text.
  std::string take_until(char end, char begin = '\0') {
    std::string text;
    for (int depth = 1; !is_at_end(); text += text_[at_ - 1]) {
      const char c = take();
      if (c == end)
        --depth;
      else if (c == begin)
        ++depth;
      if (depth == 0) break;
    }
    return text;
  }
  std::string& word() {
    if (words_.empty() && !word_) first_line_ = line_;
    if (!word_) word_.emplace();
    return *word_;
  }

  void step() {
    const char c = take();
    if (c == '\\') {
      if (const char next = take(); next != '\n' && next != '\0') word() += next;
    } else if (c == '"') {
      word();
      is_quoted_ = !is_quoted_;
    } else if (c == '$' && is_script_) {
      word() += expand();
    } else if (c == '`' && is_script_) {
      word() += kUnknown;
      take_until('`');
    } else if (is_quoted_) {
      word() += c;
    } else if (c == '\'') {
      word() += take_until('\'');
    } else if (c == '\n' || (c == '#' && (!word_ || !is_script_))) {
      if (c == '#') take_until('\n');
      end_command();
      skip_document();
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else if ((c == '<' || c == '>') && is_script_) {
      begin_redirection(c);
    } else if (is_any_of(";|&()", c) && is_script_) {
      end_command();
    } else {
      word() += c;
    }
  }

  /// Leaves out the file of a redirection. Of "<<END", the lines up to END are no commands.
  void begin_redirection(char c) {
    if (word_ && word_->size() == 1 && is_digit((*word_)[0])) word_.reset();  // the 2 of 2>file
    end_word();
    names_document_ = c == '<' && peek() == '<' && peek(1) != '<';
    while (is_any_of("<>&-|", peek())) take();
    drops_word_ = true;
  }

  void skip_document() {
    if (document_.empty()) return;
    while (!is_at_end() && trimmed(take_until('\n')) != document_) continue;
    document_.clear();
  }

  /// Returns the value of the text behind a $.
  std::string expand() {
    std::string name;
    if (peek() == '(') {
      take();
      take_until(')', '(');
    } else if (peek() == '{') {
      take();
      return expand_braces(take_until('}', '{'));
    } else if (is_digit(peek())) {
      name = take();
    } else if (is_any_of("@*#?!$-", peek())) {
      take();
    } else {
      while (is_name_character(peek())) name += take();
    }
    const auto value = value_of(name);
    const bool is_split = value && !is_quoted_ && value->find_first_of(" \t\n") != std::string::npos;
    return value && !is_split ? *value : std::string{kUnknown};
  }

  /// NAME, NAME-DEFAULT and NAME:-DEFAULT; the default value may not depend on other variables.
  std::string expand_braces(const std::string& inner) {
    const auto end = std::ranges::find_if_not(inner, is_name_character);
    const auto value = value_of({inner.begin(), end});
    std::string rest(end, inner.end());
    if (rest.starts_with(":-")) rest.erase(0, 1);
    if (value && (rest.empty() || rest[0] == '-')) return *value;
    const bool has_default = rest.starts_with('-') && rest.find_first_of("$`") == std::string::npos;
    return has_default ? rest.substr(1) : std::string{kUnknown};
  }

  [[nodiscard]] std::optional<std::string> value_of(const std::string& name) const {
    if (name.empty()) return std::nullopt;
    const auto number = parse_number<std::size_t>(name);
    if (!number) return variables_.get(name);
    return *number >= 1 && *number <= arguments_.size() ? std::optional(arguments_[*number - 1]) : std::nullopt;
  }

  void end_word() {
    if (!word_) return;
    const std::string word = *std::exchange(word_, std::nullopt);
    if (!std::exchange(drops_word_, false)) {
      words_.push_back(word);
    } else if (names_document_) {
      document_ = word;
    }
  }

  void end_command() {
    end_word();
    drops_word_ = false;
    auto words = std::exchange(words_, {});
    if (words.size() > 1 && words[0] == "for") variables_.set(words[1], {kUnknown});
    const auto drop_first_if = [&](std::initializer_list<const char*> list) {
      const bool drops = !words.empty() && is_one_of(words[0], list);
      if (drops) words.erase(words.begin());
      return drops;
    };
    while (drop_first_if({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec"})) continue;
    const bool is_declaration = drop_first_if({"export", "local", "declare", "readonly"});
    Variables during = variables_;
    while (!words.empty() && is_assignment(words[0])) {
      const std::size_t equals = words[0].find('=');
      during.set(words[0].substr(0, equals), words[0].substr(equals + 1));
      words.erase(words.begin());
    }
    if (words.empty() || is_declaration) {
      variables_ = during;
    } else {
      commands_.push_back({first_line_, std::move(words), std::move(during)});
    }
  }

  const std::string& text_;
  const std::vector<std::string>& arguments_;
  Variables variables_;
  bool is_script_;
  std::size_t at_ = 0;
  int line_ = 1;
  int first_line_ = 1;
  bool is_quoted_ = false;  // inside of double quotes
  std::optional<std::string> word_;
  std::vector<std::string> words_;
  bool drops_word_ = false;
  bool names_document_ = false;
  std::string document_;  // the last line of the here-document that begins after this line; empty: none
  std::vector<ShellCommand> commands_;
};

}  // namespace

std::vector<ShellCommand> shell_commands(const std::string& script, const std::vector<std::string>& arguments,
                                         const Variables& variables) {
  return ShellReader(script, arguments, variables, true).read();
}

std::vector<std::string> option_words(const std::string& line) {
  const auto commands = ShellReader(line, {}, {}, false).read();
  return commands.empty() ? std::vector<std::string>() : commands.front().words;
}

}  // namespace mn::launcher
