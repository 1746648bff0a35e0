#include "batch/shell_words.hpp"

#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include <mn/core/text.hpp>

#include "batch/command_list.hpp"
#include "batch/shell_text.hpp"

namespace mn::launcher {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_any_of(const char* list, char c) { return c != '\0' && std::strchr(list, c) != nullptr; }

class ShellReader {
 public:
  /// `is_script` is false for option_words().
  ShellReader(const std::string& text, const std::vector<std::string>& arguments, Variables variables, bool is_script)
      : text_(text), arguments_(arguments), commands_(std::move(variables)), is_script_(is_script) {}

  ShellScript read() {
    while (!text_.is_at_end()) step();
    end_command();
    return {commands_.take(), std::move(comment_lines_), is_quoted_};
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
      is_quoted_ = !text_.has('\'');
      word() += text_.take_until('\'');
    } else if (c == '\n' || (c == '#' && (!word_ || !is_script_))) {
      if (c == '#') take_comment();
      end_command();
      piped_ = 0;
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
    if (words_.empty() && !word_) comment_lines_.push_back(text_.line());
    text_.take_until('\n');
  }

  void take_operator(char c) {
    if (is_in_test()) {
      word() += c;
    } else if (c == '<' || c == '>') {
      begin_redirection(c);
    } else if (c == '(') {
      open_parenthesis();
    } else if (c == ')') {
      close_parenthesis();
    } else if (is_any_of(";|&", c)) {
      end_with(c);
    } else {
      word() += c;
    }
  }

  /// Whether this is text between [[ and ]].
  [[nodiscard]] bool is_in_test() const {
    return std::ranges::find(words_, "[[") != words_.end() && std::ranges::find(words_, "]]") == words_.end() &&
           word_ != "]]";
  }

  void end_with(char c) {
    const bool is_empty = words_.empty() && !word_;  // the second character of && and the like
    const int before = commands_.size();
    end_command();
    const bool is_pipe = c == '|' && text_.peek() != '|';
    if (is_pipe) piped_ += commands_.size() - before;
    if (!is_pipe && !is_empty) piped_ = 0;
    depends_ = c == '|' || (c == '&' && (is_empty ? depends_ : text_.peek() == '&'));
  }

  /// Arithmetic, an array's values, a function's name, or commands of another shell.
  void open_parenthesis() {
    if (word_ && !assigned_name(*word_).empty()) {
      text_.take_nested(')');
      *word_ += kUnknown;
    } else if (text_.peek() == '(') {
      commands_.forget(names_in(text_.take_parentheses()));
    } else if (text_.peek() == ')') {
      text_.take();
      end_word();
      if (!words_.empty()) commands_.add_function(words_.back());
      words_.clear();
    } else {
      end_command();
      commands_.open_subshell();
      ++parentheses_;
    }
  }

  void close_parenthesis() {
    const int piped = std::exchange(piped_, 0);
    if (parentheses_ > 0) {
      end_command();
      commands_.close_subshell();
      --parentheses_;
    } else {
      end_word();
      commands_.drop_pattern(std::exchange(words_, {}), piped);
    }
  }

  /// Leaves out the file of a redirection. Of "<<END", the lines up to END are no commands.
  void begin_redirection(char c) {
    if (word_ && word_->size() == 1 && is_digit((*word_)[0])) word_.reset();  // the 2 of 2>file
    end_word();
    if (text_.peek() == '(') {  // the file is a pipe of a command
      text_.take();
      text_.take_parentheses();
      word() += kUnknown;
      return;
    }
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
      text_.take_parentheses();
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

  /// NAME, NAME-DEFAULT and NAME:-DEFAULT; the default value may not have quotes, nor depend on other variables.
  std::string expand_braces(const std::string& inner) {
    const auto end = std::ranges::find_if_not(inner, is_name_character);
    const auto value = value_of({inner.begin(), end});
    std::string rest(end, inner.end());
    if (rest.starts_with(":-")) rest.erase(0, 1);
    if (value && (rest.empty() || rest[0] == '-')) return *value;
    const bool has_default = rest.starts_with('-') && rest.find_first_of("$`\"'\\") == std::string::npos;
    return has_default ? rest.substr(1) : std::string{kUnknown};
  }

  [[nodiscard]] std::optional<std::string> value_of(const std::string& name) const {
    if (name.empty()) return std::nullopt;
    const auto number = parse_number<std::size_t>(name);
    if (!number) return commands_.variables().get(name);
    return *number >= 1 && *number <= arguments_.size() ? std::optional(arguments_[*number - 1]) : std::nullopt;
  }

  void end_word() {
    if (!word_) return;
    const std::string word = *std::exchange(word_, std::nullopt);
    (std::exchange(drops_word_, false) ? files_ : words_).push_back(word);
  }

  void end_command() {
    end_word();
    drops_word_ = false;
    if (words_.empty() && files_.empty()) return;
    commands_.add({first_line_, std::exchange(words_, {}), std::exchange(files_, {}), {}}, depends_);
    depends_ = false;
  }

  ShellText text_;
  const std::vector<std::string>& arguments_;
  CommandList commands_;
  bool is_script_;
  int first_line_ = 1;
  bool is_quoted_ = false;  // inside of double quotes
  std::optional<std::string> word_;
  std::vector<std::string> words_;
  std::vector<std::string> files_;  // of redirections
  bool drops_word_ = false;         // the word is the file of a redirection
  int parentheses_ = 0;             // open ( of subshells
  int piped_ = 0;                   // commands of this pipe so far
  bool depends_ = false;            // the command follows &&, || or |
  std::vector<int> comment_lines_;
};

}  // namespace

ShellScript read_shell_script(const std::string& text, const std::vector<std::string>& arguments,
                              const Variables& variables) {
  return ShellReader(text, arguments, variables, true).read();
}

std::optional<std::vector<std::string>> option_words(const std::string& line) {
  auto script = ShellReader(line, {}, {}, false).read();
  if (script.has_open_quote) return std::nullopt;
  return script.commands.empty() ? std::vector<std::string>() : script.commands.front().words;
}

}  // namespace mn::launcher
