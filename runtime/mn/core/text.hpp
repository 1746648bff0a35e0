/// Functions for text: numbers, hexadecimal digits, upper and lower case, lists.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace mn {

/// Writes two lowercase hexadecimal digits for each byte.
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);
/// Writes a number as 16 lowercase hexadecimal digits. The overload for 32-bit numbers writes 8 digits.
[[nodiscard]] std::string to_hex(std::uint64_t value);
[[nodiscard]] std::string to_hex(std::uint32_t value);

/// Reads two hexadecimal digits for each byte. Empty if a digit is missing, or if a character is not such a digit.
[[nodiscard]] std::string from_hex(std::string_view digits);

/// Parses all of `text` as a decimal number of type T. No value for any other text, or if T can't hold the number.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Writes a length of time for people, in at most two units: "0.35 s", "42 s", "5 min 3 s", "3 h 20 min", "2 d 4 h".
[[nodiscard]] std::string duration_text(double seconds);

/// Writes a size for people: "512 bytes", "1.5 MiB", "312 GiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// Replaces line ends and other control characters, which names of files may contain, by "?".
[[nodiscard]] std::string one_line(std::string_view text);

/// The text up to its first line end. libtorch, for example, appends a stack trace to its error texts.
[[nodiscard]] inline std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Replaces the capital letters of ASCII by small letters, whatever the locale. Keeps all other bytes.
[[nodiscard]] std::string to_lower(std::string text);

/// The text without blanks and line ends at its two ends, as a view into `text`.
[[nodiscard]] std::string_view trimmed(std::string_view text);

/// The parts of `list` between the separators, as views into `list`. An empty list has one part, the empty text.
[[nodiscard]] std::vector<std::string_view> split(std::string_view list, char separator);

/// Joins the items to one text, with the separator between them. `text_of`, a function or a pointer to a member, makes
/// a string or a number from an item.
template <class Items, class TextOf = std::identity>
[[nodiscard]] std::string join(const Items& items, std::string_view separator = ", ", const TextOf& text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) text += separator;
    const auto& part = std::invoke(text_of, item);
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  }
  return text;
}

}  // namespace mn
