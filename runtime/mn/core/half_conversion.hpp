/// Converts many Float16 to float32 and back, with the CPU's own instructions if the CPU has them (F16C, AVX-512).
///
/// Invariant: results have the same bits as to_float() and to_float16() on every CPU, NaNs included.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

/// These functions convert `count` elements of `in` to `out`. The buffers must not overlap.
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
