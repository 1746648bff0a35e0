/// Lists the members of a struct by name, for code that writes and reads structs: an example is JSON with a field for
/// each member (launcher/facts/json_fields.hpp).
#pragma once

#include <string_view>
#include <tuple>

/// Stands behind the members of a struct and lists the members that travel.
#define MN_FIELDS(...)                                                         \
  [[nodiscard]] auto fields() noexcept { return std::tie(__VA_ARGS__); }       \
  [[nodiscard]] auto fields() const noexcept { return std::tie(__VA_ARGS__); } \
  static constexpr std::string_view kFieldNames = #__VA_ARGS__

/// Stands behind MN_FIELDS and lists the fields that a reader cannot do without.
#define MN_NEEDED_FIELDS(...) static constexpr std::string_view kNeededNames = #__VA_ARGS__
