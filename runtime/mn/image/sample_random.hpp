/// Random numbers for a sample in an epoch, equal on every thread and rank.
#pragma once

#include <cassert>
#include <cstdint>

#include <mn/core/random.hpp>

namespace mn::data {

/// A stream of random numbers. Each key (seed, epoch, index) gives a stream of its own.
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index) noexcept
      : numbers_(mix_bits(mix_bits(mix_bits(seed + 1) + static_cast<std::uint64_t>(epoch)) +
                          static_cast<std::uint64_t>(index))) {}

  /// Draws from [least, most), with 53 random bits.
  [[nodiscard]] double uniform(double least, double most) noexcept {
    return least + (most - least) * (static_cast<double>(numbers_.next() >> 11) * 0x1p-53);
  }

  /// From 0 to n − 1; n must be positive.
  [[nodiscard]] int below(int n) noexcept {
    assert(n > 0);
    return static_cast<int>((numbers_.next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
  }

 private:
  SplitMix64 numbers_;
};

}  // namespace mn::data
