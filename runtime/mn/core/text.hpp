/// Text that several formats share: hexadecimal digits, lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// Two lowercase digits for each byte.
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);
/// 16 lowercase digits, 8 of a number of 32 bits.
[[nodiscard]] std::string to_hex(std::uint64_t value);
[[nodiscard]] std::string to_hex(std::uint32_t value);

/// The parts of `list` between its separators: one more than it has separators, so {""} for an empty list. They point
/// into `list`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view list, char separator);

}  // namespace mn
