#include <mn/core/text.hpp>

#include <algorithm>
#include <array>
#include <iomanip>

#include <mn/core/classic_stream.hpp>

namespace mn {

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte >> 4)];
    text += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return text;
}

std::string to_hex(std::uint32_t value) { return to_hex(std::uint64_t{value}).substr(8); }

std::string to_hex(std::uint64_t value) {
  std::byte bytes[sizeof value];
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes[i] = static_cast<std::byte>(value >> (8 * (sizeof value - 1 - i)));
  return to_hex(bytes);
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    std::uint8_t byte = 0;
    const auto [end, error] = std::from_chars(&digits[i], &digits[i] + 2, byte, 16);
    if (error != std::errc() || end != &digits[i] + 2) return "";
    bytes += static_cast<char>(byte);
  }
  return digits.size() % 2 == 0 ? bytes : "";
}

std::string duration_text(double seconds) {
  if (seconds < 10) {
    OutText text;
    text << std::setprecision(2) << std::max(seconds, 0.0) << " s";
    return text.str();
  }
  constexpr std::array<std::pair<std::int64_t, const char*>, 4> kUnits = {
      {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}};
  auto left = static_cast<std::int64_t>(std::min(seconds, 1e15));
  std::string text;
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const auto& [unit, name] = kUnits[i];
    if (text.empty() && left < unit) continue;
    const bool is_second = !text.empty();
    if (left >= unit) text += (is_second ? " " : "") + std::to_string(left / unit) + " " + name;
    left %= unit;
    if (is_second) break;
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  OutText text;
  text << std::fixed << std::setprecision(unit > 0 && size < 100 ? 1 : 0) << size << ' ' << kUnits[unit];
  return text.str();
}

std::string one_line(std::string_view text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; };
  std::string line(text);
  std::ranges::replace_if(line, is_control, '?');
  return line;
}

std::string to_lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = list.find(separator);
    parts.push_back(list.substr(0, end));
    if (end == std::string_view::npos) return parts;
    list.remove_prefix(end + 1);
  }
}

}  // namespace mn
