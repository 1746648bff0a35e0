/// Element-wise reductions on the host, in a fixed order and with SIMD.
#pragma once

#include <cstddef>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// What to compute; `scale` multiplies the result (floats only).
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;
};

/// out[i] = ((in[0][i] op in[1][i]) op in[2][i]) … × scale, for i < count, written to each of `outputs`. An output may
/// be one of the inputs, but must not overlap one otherwise. 16-bit floats are accumulated in float32 and rounded once,
/// to nearest even; integers wrap.
void reduce_in_order(std::span<void* const> outputs, std::span<const void* const> inputs, std::size_t count,
                     const Reduction& reduction);

}  // namespace mn
