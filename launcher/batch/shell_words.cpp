#include "batch/shell_words.hpp"

#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include <mn/core/text.hpp>

#include "batch/shell_text.hpp"

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

  ShellScript read() {
    while (!text_.is_at_end()) step();
    end_command();
    return std::move(script_);
  }

 private:
  std::string& word() {
    if (words_.empty() && !word_) first_line_ = text_.line();
    if (!word_) word_.emplace();
    return *word_;
  }

  void step() {
    const char c = text_.take();
    if (c == '\\') {
      if (const char next = text_.take(); next != '\n' && next != '\0') word() += next;
    } else if (c == '"') {
      word();
      is_quoted_ = !is_quoted_;
    } else if (c == '$' && is_script_) {
      word() += expand();
    } else if (c == '`' && is_script_) {
      word() += kUnknown;
      text_.take_escaped('`');
    } else if (is_quoted_) {
      word() += c;
    } else if (c == '\'') {
      word() += text_.take_until('\'');
    } else if (c == '\n' || (c == '#' && (!word_ || !is_script_))) {
      if (c == '#') take_comment();
      end_command();
      text_.skip_documents();
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else if (is_script_) {
      take_operator(c);
    } else {
      word() += c;
    }
  }

  void take_comment() {
    if (words_.empty() && !word_) script_.comment_lines.push_back(text_.line());
    text_.take_until('\n');
  }

  void take_operator(char c) {
    if (c == '<' || c == '>') {
      begin_redirection(c);
    } else if (c == '(' && text_.peek() == '(') {
      text_.skip_parentheses();
    } else if (is_any_of(";|&()", c)) {
      end_command();
    } else {
      word() += c;
    }
  }

  /// Leaves out the file of a redirection. Of "<<END", the lines up to END are no commands.
  void begin_redirection(char c) {
    if (word_ && word_->size() == 1 && is_digit((*word_)[0])) word_.reset();  // the 2 of 2>file
    end_word();
    if (c == '<' && text_.peek() == '<' && text_.peek(1) != '<') {
      text_.take();
      text_.take_document_word();
      return;
    }
    while (is_any_of("<>&-|", text_.peek())) text_.take();
    drops_word_ = true;
  }

  /// Returns the value of the text behind a $.
  std::string expand() {
    std::string name;
    const char c = text_.peek();
    if (c == '\'' && !is_quoted_) {
      text_.take();
      const std::string text = text_.take_escaped('\'');
      return text.find('\\') == std::string::npos ? text : std::string{kUnknown};
    }
    if (c == '(') {
      text_.take();
      text_.skip_parentheses();
    } else if (c == '{') {
      text_.take();
      return expand_braces(text_.take_nested('}', is_quoted_));
    } else if (is_digit(c)) {
      name = text_.take();
    } else if (is_any_of("@*#?!$-", c)) {
      text_.take();
    } else {
      while (is_name_character(text_.peek())) name += text_.take();
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
    if (!std::exchange(drops_word_, false)) words_.push_back(word);
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
      script_.commands.push_back({first_line_, std::move(words), std::move(during)});
    }
  }

  ShellText text_;
  const std::vector<std::string>& arguments_;
  Variables variables_;
  bool is_script_;
  int first_line_ = 1;
  bool is_quoted_ = false;  // inside of double quotes
  std::optional<std::string> word_;
  std::vector<std::string> words_;
  bool drops_word_ = false;
  ShellScript script_;
};

}  // namespace

ShellScript read_shell_script(const std::string& text, const std::vector<std::string>& arguments,
                              const Variables& variables) {
  return ShellReader(text, arguments, variables, true).read();
}

std::vector<std::string> option_words(const std::string& line) {
  const auto commands = ShellReader(line, {}, {}, false).read().commands;
  return commands.empty() ? std::vector<std::string>() : commands.front().words;
}

}  // namespace mn::launcher
