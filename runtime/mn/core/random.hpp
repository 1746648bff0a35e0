/// SplitMix64, a generator of 64-bit random numbers. The numbers depend only on a key, so any rank and any thread can
/// compute every number.
///
/// The state is a counter. Each random number is the counter after its bits were mixed by a bijection in which every
/// input bit affects every output bit. Any 64-bit value is a good first state, even next to the state of another
/// generator. Cost: five shifts and multiplications for each number, no memory. Source: Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", OOPSLA 2014.
#pragma once

#include <cstdint>

namespace mn {

/// Mixes the bits of `x` by the bijection of SplitMix64. 0 stays 0.
[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;  // 2⁶⁴ divided by the golden ratio, as an odd number
    return mix_bits(state_);
  }

 private:
  std::uint64_t state_;
};

}  // namespace mn
