/// Lists the members of a struct by name, for code that writes and reads structs. For example,
/// launcher/facts/json_fields.hpp writes each member as a field of a JSON object.
#pragma once

#include <string_view>
#include <tuple>

/// Put MN_FIELDS after the members of a struct. The arguments are the members to write and read.
#define MN_FIELDS(...)                                                         \
  [[nodiscard]] auto fields() noexcept { return std::tie(__VA_ARGS__); }       \
  [[nodiscard]] auto fields() const noexcept { return std::tie(__VA_ARGS__); } \
  static constexpr std::string_view kFieldNames = #__VA_ARGS__

/// Put MN_NEEDED_FIELDS after MN_FIELDS. The arguments are the members that every document must have.
#define MN_NEEDED_FIELDS(...) static constexpr std::string_view kNeededNames = #__VA_ARGS__
