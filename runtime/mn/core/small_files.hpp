/// Reads small text files, for example those in /proc and /sys.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace mn {

/// The first line of a file; no value if the file cannot be read or the line is empty.
[[nodiscard]] inline std::optional<std::string> first_line(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line.empty() ? std::nullopt : std::optional(line);
}

/// The value of `key` in a file with lines "KEY : VALUE". For the key "model name", the line "model name : EPYC" gives
/// "EPYC". No value if the file lacks the key or the key lacks a value.
[[nodiscard]] inline std::optional<std::string> value_of_key(const std::filesystem::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t:=", key.size());
    return value == std::string::npos ? std::nullopt : std::optional(line.substr(value));
  }
  return std::nullopt;
}

/// The number at the beginning of `text`; no value if there is none.
[[nodiscard]] inline std::optional<std::int64_t> leading_number(const std::optional<std::string>& text) {
  std::int64_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

}  // namespace mn
