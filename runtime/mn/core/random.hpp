/// SplitMix64: 64-bit random numbers as a function of a key. Any rank and any thread can compute every number.
///
/// The state is a counter. Each number is the counter, mixed by a bijection in which every input bit affects every
/// output bit. Any 64-bit value is a good state, and so are neighboring values. Cost: five shifts and multiplications
/// for each number, no memory. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014.
#pragma once

#include <cstdint>

namespace mn {

/// The bijection of SplitMix64, which mixes the bits of `x`. 0 stays 0.
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;  // 2⁶⁴ over the golden ratio, odd
    return mix_bits(state_);
  }

 private:
  std::uint64_t state_;
};

}  // namespace mn
