/// Numbers, times and texts as a page shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mn::report {

/// `text` escaped for HTML text and attributes. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string escape_html(std::string_view text);
/// The number with four significant digits, or as a whole number.
[[nodiscard]] std::string short_number(double value);
/// A count with commas, "60,000". From ten million on, millions (M), billions (G) or trillions (T): "25.6 M".
[[nodiscard]] std::string count_text(double count);
/// A number of things, with the plural's s unless the count is 1: "1 rank", "60,000 samples".
[[nodiscard]] std::string counted(double count, const std::string& thing);
/// A share as percentage with three digits, "12.3 %", or with two digits below 10 %, "3.4 %".
[[nodiscard]] std::string percent(double share);

}  // namespace mn::report
