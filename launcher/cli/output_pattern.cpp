#include "cli/output_pattern.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include <mn/core/error.hpp>

namespace mn::launcher {
namespace {

constexpr const char* kLetters = "rjsht%";

bool is_pattern(const std::string& text) { return text.find('%') != std::string::npos; }

/// Calls field(letter, digits) for each field, such as %4r, and literal(character) for each other character. A % at the
/// end counts as a field with the letter '\0'.
template <typename Field, typename Literal = void (*)(char)>
void walk(
    const std::string& pattern, Field field, Literal literal = [](char) {}) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      literal(pattern[i]);
      continue;
    }
    int digits = 0;
    while (++i < pattern.size() && std::isdigit(static_cast<unsigned char>(pattern[i])) != 0 && digits < 10) {
      digits = 10 * digits + (pattern[i] - '0');
    }
    field(i < pattern.size() ? pattern[i] : '\0', digits);
  }
}

std::string with_digits(int number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*d", std::min(digits, 20), number);
  return text;
}

}  // namespace

bool names_ranks(const std::string& pattern) {
  bool found = !is_pattern(pattern);
  walk(pattern, [&](char letter, int) { found = found || letter == 'r'; });
  return found;
}

void check_output_pattern(const std::string& pattern) {
  walk(pattern, [&](char letter, int) {
    if (letter != '\0' && std::string(kLetters).find(letter) != std::string::npos) return;
    const std::string what = letter == '\0' ? "ends with %" : std::string("has %") + letter;
    throw UsageError("--output \"" + pattern + "\" " + what + ": use %r (rank), %j (job), %s (step), %h (host), " +
                     "%t (out or err), or %% for a percent sign");
  });
}

std::filesystem::path output_file(const std::string& pattern, const OutputNames& names, const std::string& stream) {
  if (!is_pattern(pattern))
    return std::filesystem::path(pattern) / ("rank-" + with_digits(names.rank, 4) + "." + stream);
  std::string text;
  const auto add_field = [&](char letter, int digits) {
    text += letter == 'r'   ? with_digits(names.rank, digits)
            : letter == 'j' ? names.job
            : letter == 's' ? names.step
            : letter == 'h' ? names.host
            : letter == 't' ? stream
                            : std::string("%");
  };
  walk(pattern, add_field, [&](char c) { text += c; });
  return text;
}

}  // namespace mn::launcher
