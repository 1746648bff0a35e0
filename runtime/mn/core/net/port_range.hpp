/// TCP ports for a job's listeners.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>

namespace mn {

struct PortRange {
  int first;
  int last;  ///< last port that belongs to the range

  /// Returns the port at index (hash + further) modulo the range's length.
  [[nodiscard]] constexpr int choose(std::uint64_t hash, int further = 0) const noexcept {
    assert(first <= last && further >= 0);
    const auto count = static_cast<std::uint64_t>(last - first + 1);
    return first + static_cast<int>((hash % count + static_cast<std::uint64_t>(further)) % count);
  }
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

[[nodiscard]] inline std::string to_text(const PortRange& range) {
  return std::to_string(range.first) + "-" + std::to_string(range.last);
}

/// The default ranges. The first range lies below Linux's default range for outgoing connections (32768-60999), so
/// these connections do not take its ports. The second range is for hosts whose processes use all ports of the first
/// range.
inline constexpr PortRange kDefaultPorts[] = {{20000, 31999}, {8000, 19999}};

}  // namespace mn
