/// Formats numbers, times and texts for a page.
#pragma once

#include <string>
#include <string_view>

namespace mn::report {

/// Escapes `text` for HTML text and attributes. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string escape_html(std::string_view text);
/// Four significant digits, for instance "0.1235"; all digits before the point from 10,000 to a billion.
[[nodiscard]] std::string short_number(double value);
/// For instance "60,000"; from ten million on in millions (M), billions (G) or trillions (T), "25.6 M".
[[nodiscard]] std::string count_text(double count);
/// For instance "60,000 samples" or "1 rank".
[[nodiscard]] std::string counted(double count, const std::string& thing);
/// Formats a share as a percentage. From 10 % on, it has three digits ("12.3 %"), below 10 % two digits ("3.4 %").
[[nodiscard]] std::string percent(double share);

}  // namespace mn::report
