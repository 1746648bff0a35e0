/// Formats numbers, times and texts for a page.
#pragma once

#include <string>
#include <string_view>

namespace mn::report {

/// Escapes `text` for HTML, as text or as an attribute. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string escape_html(std::string_view text);
/// Formats a number with four significant digits. Numbers from 10,000 to a billion are written whole.
[[nodiscard]] std::string short_number(double value);
/// Formats a count with commas, for instance "60,000". From ten million on, counts millions (M), billions (G) or
/// trillions (T), for instance "25.6 M".
[[nodiscard]] std::string count_text(double count);
/// Formats a number of things, for instance "60,000 samples"; without the plural's s for one thing, "1 rank".
[[nodiscard]] std::string counted(double count, const std::string& thing);
/// Formats a share as a percentage with three digits, "12.3 %", or below 10 % with two digits, "3.4 %".
[[nodiscard]] std::string percent(double share);

}  // namespace mn::report
