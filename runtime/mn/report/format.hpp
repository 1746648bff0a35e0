/// Formats numbers, times and texts for a page.
#pragma once

#include <string>
#include <string_view>

namespace mn::report {

/// Escapes `text` for HTML, so that it may stand between tags or in an attribute. Bytes that are not UTF-8 become
/// U+FFFD.
[[nodiscard]] std::string escape_html(std::string_view text);
/// Formats a number with four significant digits. Numbers from 10,000 to a billion are written with all digits before
/// the point.
[[nodiscard]] std::string short_number(double value);
/// Formats a count with commas, for instance "60,000". From ten million on, the unit is a million (M), a billion (G) or
/// a trillion (T), for instance "25.6 M".
[[nodiscard]] std::string count_text(double count);
/// Formats a number of things, for instance "60,000 samples". For one thing, there is no plural's s, for instance "1
/// rank".
[[nodiscard]] std::string counted(double count, const std::string& thing);
/// Formats a share as a percentage. From 10 % on, it has three digits ("12.3 %"), below 10 % two digits ("3.4 %").
[[nodiscard]] std::string percent(double share);

}  // namespace mn::report
