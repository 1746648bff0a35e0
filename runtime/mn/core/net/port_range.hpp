/// TCP ports for a job's listeners.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>

namespace mn {

struct PortRange {
  int first;
  int last;  ///< last port that belongs to the range

  /// Returns a port of the range. `hash` modulo the range's length is the position of a port, and the result lies
  /// `further` ports after this one. After the last port the count continues with the first.
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

/// The port ranges that are used by default. The first range lies below Linux's default range for outgoing connections
/// (32768-60999); therefore outgoing connections do not take ports of the first range. The second range is for hosts
/// whose processes use all ports of the first range.
inline constexpr PortRange kDefaultPorts[] = {{20000, 31999}, {8000, 19999}};

}  // namespace mn
