#include "batch/shell_text.hpp"

#include <string_view>
#include <utility>

#include <mn/core/text.hpp>

namespace mn::launcher {

char ShellText::take() {
  if (is_at_end()) return '\0';
  if (text_[at_] == '\n') ++line_;
  return text_[at_++];
}

std::string ShellText::take_text(char end, bool escapes) {
  std::string text;
  while (!is_at_end()) {
    const char c = take();
    if (c == end) break;
    text += c;
    if (escapes && c == '\\' && !is_at_end()) text += take();
  }
  return text;
}

std::string ShellText::take_nested(char end, bool is_quoted) {
  constexpr int kDeepest = 200;  // recursion must not exhaust the stack
  const std::size_t begin = at_;
  std::size_t last = begin;
  if (depth_ >= kDeepest) at_ = text_.size();
  ++depth_;
  while (!is_at_end()) {
    last = at_;
    const char c = take();
    if (c == end) break;
    last = at_;
    pass(c, end, is_quoted || end == '"');
  }
  --depth_;
  return text_.substr(begin, last - begin);
}

void ShellText::pass(char c, char end, bool is_quoted) {
  if (c == '\\') {
    take();
  } else if (c == '`') {
    take_escaped('`');
  } else if (c == '"') {
    take_nested('"');
  } else if (c == '\'' && !is_quoted) {
    take_until('\'');
  } else if (c == '$' && peek() == '\'' && !is_quoted) {
    take();
    take_escaped('\'');
  } else if (c == '$' && peek() == '(') {
    take();
    take_parentheses();
  } else if (c == '$' && peek() == '{') {
    take();
    take_nested('}', is_quoted);
  } else if (end == ')') {
    pass_command_character(c);
  }
}

void ShellText::pass_command_character(char c) {
  const char before = at_ >= 2 ? text_[at_ - 2] : '\n';
  if (c == '(') {
    take_parentheses();
  } else if (c == '<' && peek() == '<') {
    take();
    if (peek() == '<')
      take();
    else
      take_document_word();
  } else if (c == '#' && std::string_view(" \t\n;(").find(before) != std::string_view::npos) {
    take_until('\n');
    skip_documents();
  } else if (c == '\n') {
    skip_documents();
  }
}

std::string ShellText::take_parentheses() {
  if (peek() != '(') return take_nested(')');
  const std::size_t begin = at_;
  take();
  for (int depth = 2; depth > 0 && !is_at_end();) {
    const char c = take();
    if (c == '(') ++depth;
    if (c == ')') --depth;
  }
  return text_.substr(begin, at_ - begin);
}

void ShellText::take_document_word() {
  if (peek() == '-') take();
  while (peek() == ' ' || peek() == '\t') take();
  std::string word;
  while (!is_at_end() && std::string_view(" \t\n;|&()<>").find(peek()) == std::string_view::npos) {
    const char c = take();
    if (c == '\'' || c == '"')
      word += take_until(c);
    else if (c != '\\')
      word += c;
  }
  if (!word.empty()) documents_.push_back(word);
}

void ShellText::skip_documents() {
  for (const auto& last : std::exchange(documents_, {})) {
    while (!is_at_end() && trimmed(take_until('\n')) != last) continue;
  }
}

}  // namespace mn::launcher
