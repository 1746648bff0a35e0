/// A position in the text of a shell script. Passes over quoted and nested text, here-documents and arithmetic without
/// taking their quotes, parentheses and marks for the script's own.
/// Source: POSIX.1-2017, Shell Command Language, sections 2.2, 2.6 and 2.7; bash(1).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mn::launcher {

class ShellText {
 public:
  /// `text` must outlive this.
  explicit ShellText(const std::string& text) : text_(text) {}

  [[nodiscard]] bool is_at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] int line() const { return line_; }
  /// NUL behind the end.
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char take();
  [[nodiscard]] bool has(char c) const { return text_.find(c, at_) != std::string::npos; }

  /// Each takes the text up to `end`, and `end`, and returns the text.
  std::string take_until(char end) { return take_text(end, false); }
  std::string take_escaped(char end) { return take_text(end, true); }  ///< a character behind a backslash is no `end`

  /// For text behind the opening `$(`, `${` or `"`, whose `end` is `)`, `}` or `"`. `is_quoted`: in double quotes.
  std::string take_nested(char end, bool is_quoted = false);

  /// Behind `(`: takes the text up to its `)`, or up to `))` if it is arithmetic.
  std::string take_parentheses();

  /// Behind `<<`: takes the last line's word of the here-document, which begins after this line.
  void take_document_word();
  /// At the beginning of a line: passes the here-documents that begin here.
  void skip_documents();

 private:
  std::string take_text(char end, bool escapes);
  void pass(char c, char end, bool is_quoted);
  void pass_command_character(char c);

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::vector<std::string> documents_;  ///< last lines of the here-documents that begin after this line
};

}  // namespace mn::launcher
