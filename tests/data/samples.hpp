/// Sets of samples, for tests of the division among ranks.
#pragma once

#include <cstdint>
#include <set>

namespace mn {

using Samples = std::multiset<std::int64_t>;

inline constexpr std::uint64_t kFingerprint = 0xABCDEF;

inline Samples whole(std::int64_t n) {
  Samples all;
  for (std::int64_t i = 0; i < n; ++i) all.insert(i);
  return all;
}

}  // namespace mn
