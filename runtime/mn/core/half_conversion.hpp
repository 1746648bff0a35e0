/// Converts many Float16 to float32 and back, with the CPU's own instructions if the CPU has them (F16C).
///
/// Invariant: on every CPU the results have the same bits as those of to_float() and to_float16(), even for NaNs.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

/// Convert the first `count` elements of `in` and write the results to `out`. The two arrays must not overlap.
void widen(float* out, const Float16* in, std::size_t count);
void narrow(Float16* out, const float* in, std::size_t count);

struct HalfConversion {
  const char* name;
  void (*widen)(float* out, const Float16* in, std::size_t count);
  void (*narrow)(Float16* out, const float* in, std::size_t count);
};
/// The implementations of the conversions that this CPU can run, fastest first.
[[nodiscard]] std::vector<HalfConversion> half_conversions();

}  // namespace mn
