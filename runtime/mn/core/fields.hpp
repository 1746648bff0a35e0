/// Lists the members of a struct by name, for code that writes and reads structs. For example,
/// launcher/facts/json_fields.hpp writes a struct as JSON with a field for each member.
#pragma once

#include <string_view>
#include <tuple>

/// Put MN_FIELDS after the members of a struct. The arguments are the names of the members to write and read.
#define MN_FIELDS(...)                                                         \
  [[nodiscard]] auto fields() noexcept { return std::tie(__VA_ARGS__); }       \
  [[nodiscard]] auto fields() const noexcept { return std::tie(__VA_ARGS__); } \
  static constexpr std::string_view kFieldNames = #__VA_ARGS__

/// Put MN_NEEDED_FIELDS after MN_FIELDS. The arguments are the names of the fields that every document must have.
#define MN_NEEDED_FIELDS(...) static constexpr std::string_view kNeededNames = #__VA_ARGS__
