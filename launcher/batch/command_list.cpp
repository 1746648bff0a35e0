#include "batch/command_list.hpp"

#include <cctype>
#include <string_view>

namespace mn::launcher {
namespace {

using Words = std::vector<std::string>;

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

Words names_in(const std::string& text) {
  Words names;
  for (auto at = text.begin(); (at = std::find_if(at, text.end(), begins_name)) != text.end();) {
    const auto end = std::find_if_not(at, text.end(), continues_name);
    names.emplace_back(at, end);
    at = end;
  }
  return names;
}

std::string assigned_name(const std::string& word) {
  if (word.empty() || !begins_name(word[0])) return "";
  const std::string name(word.begin(), std::ranges::find_if_not(word, continues_name));
  const std::string_view rest = std::string_view(word).substr(name.size());
  const bool is_element = rest.starts_with('[') && rest.find("]=") != std::string_view::npos;
  return rest.starts_with('=') || rest.starts_with("+=") || is_element ? name : "";
}

void CommandList::add(ShellCommand command, bool depends) {
  Words& words = command.words;
  take_keywords(words);
  const bool is_declaration =
      !words.empty() && is_one_of(words[0], {"export", "local", "declare", "typeset", "readonly"});
  if (is_declaration) {
    words.erase(words.begin());
    std::erase_if(words, [](const std::string& word) { return word.starts_with('-'); });
  }
  command.variables = variables_;
  for (std::string name; !words.empty() && !(name = assigned_name(words[0])).empty(); words.erase(words.begin())) {
    const bool is_certain = depth_ == 0 && !depends && words[0][name.size()] == '=';
    command.variables.set(name, is_certain ? words[0].substr(name.size() + 1) : std::string{kUnknown});
  }
  if (words.empty() || is_declaration) {
    variables_ = std::move(command.variables);
    return;
  }
  if (is_one_of(words[0], {"read", "unset", "let", "getopts", "mapfile", "readarray", "printf"})) {
    for (const auto& word : words) forget(names_in(word));
  }
  if (std::ranges::find(functions_, words[0]) != functions_.end()) words[0] = std::string{kUnknown};
  commands_.push_back(std::move(command));
}

void CommandList::take_keywords(Words& words) {
  for (bool goes_on = true; goes_on && !words.empty();) {
    const std::string word = words[0];
    const bool has_list = is_one_of(word, {"for", "select", "case"});  // words, in place of a command
    const bool opens = has_list || is_one_of(word, {"if", "while", "until", "{"});
    const bool closes = is_one_of(word, {"fi", "done", "esac", "}"});
    const bool is_function = word == "function" && words.size() > 1;
    if (opens) ++depth_;
    if (closes && depth_ > 0) --depth_;
    if (has_list && words.size() > 1) forget({words[1]});
    if (is_function) add_function(words[1]);
    goes_on = opens || closes || is_function ||
              is_one_of(word, {"then", "else", "elif", "do", "!", "time", "-p", "exec", "coproc"});
    if (goes_on) words.erase(words.begin(), has_list ? words.end() : words.begin() + (is_function ? 2 : 1));
  }
}

void CommandList::drop_pattern(const Words& words, int piped) {
  if (!words.empty() && words[0] == "case") ++depth_;
  for (; piped > 0 && !commands_.empty(); --piped) commands_.pop_back();
}

void CommandList::forget(const Words& names) {
  for (const auto& name : names) variables_.set(name, std::string{kUnknown});
}

}  // namespace mn::launcher
