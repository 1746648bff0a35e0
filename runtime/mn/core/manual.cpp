#include <mn/core/manual.hpp>

#include <algorithm>

#include <mn/core/options.hpp>

namespace mn {

std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-' || c == '\\') out += '\\';
    out += c;
    line_begins = c == '\n';
  }
  return out;
}

std::string manual_item(std::string_view tag, std::string_view text) {
  return ".TP\n.B " + roff(tag) + "\n" + roff(text) + "\n";
}

std::string Options::manual(const std::vector<std::string>& computed) const {
  std::string text;
  for (const Option& option : options_) {
    const bool is_computed = std::ranges::find(computed, option.name) != computed.end();
    const std::string value = option.target.empty() && !is_computed ? option.get() : "";
    text += manual_item("--" + option.name + " " + option.value_name,
                        option.help + (value.empty() ? "" : " (default: " + value + ")"));
  }
  return text + manual_item("--config FILE", "read options from FILE: lines \"name = value\"") +
         manual_item("--help", "print a summary and exit") + manual_item("--version", "print the versions and exit");
}

}  // namespace mn
