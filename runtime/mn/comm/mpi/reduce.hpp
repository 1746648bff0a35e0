/// Element-wise reductions on the host, in a fixed order and with SIMD.
///
/// Invariants:
/// 1. Inputs are combined in their order, as ((in[0] op in[1]) op in[2]) …, so equal inputs always give equal bits.
/// 2. Every CPU computes equal bits, whatever its vector width: no fused multiply-add is used, and no operation
///    combines different elements.
/// 3. A block of outputs is written after all inputs of the block were read, so an output may be an input.
///
/// Cost: reads every input once and writes every output once, in blocks that stay in the first-level cache.
#pragma once

#include <cstddef>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// What a reduction computes. Results of float dtypes are multiplied by `scale`; integers ignore it. An average is a
/// sum with the scale 1 / ranks.
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;

  [[nodiscard]] static Reduction of(DType dtype, ReduceOp op, int ranks) {
    if (op != ReduceOp::kAverage) return {dtype, op};
    return {dtype, ReduceOp::kSum, 1.0 / ranks};
  }
};

/// Computes out[i] = (in[0][i] op in[1][i] op …) × scale for each i < count, and writes the result to each of
/// `outputs`. An output may be an input, but must not overlap only a part of an input. 16-bit floats are summed in
/// float32, and the sum is rounded once, to nearest even. Integers wrap around. The minimum and maximum of a NaN and
/// any number are NaN.
void reduce_in_order(std::span<void* const> outputs, std::span<const void* const> inputs, std::size_t count,
                     const Reduction& reduction);

}  // namespace mn
