/// Element-wise reductions on the host, in a fixed order and with SIMD.
///
/// MessageReducer, NodeReducer and SharedReducer call it, each rank for its slice.
///
/// Invariants:
/// 1. Inputs are combined in their order: ((in[0] op in[1]) op in[2]) …, so the result is defined to the bit.
/// 2. Every CPU computes the same bits: no fused multiply-add, and each element by itself, however wide the vectors
///    are.
/// 3. A block of outputs is written after all inputs of that block were read, so an output may be an input.
///
/// Cost: every input is read once and every output written once, in blocks of 1024 elements whose accumulator stays in
/// the first-level cache. No allocation.
#pragma once

#include <cstddef>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// What to compute; `scale` multiplies the result (floats only). An average is a sum with a scale.
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;

  /// What to compute for `op` over so many ranks.
  [[nodiscard]] static Reduction of(DType dtype, ReduceOp op, int ranks) {
    if (op != ReduceOp::kAverage) return {dtype, op};
    return {dtype, ReduceOp::kSum, 1.0 / ranks};
  }
};

/// out[i] = (in[0][i] op in[1][i] op …) × scale, for i < count, written to each of `outputs`. An output may be one of
/// the inputs, but must not overlap one otherwise. 16-bit floats are accumulated in float32 and rounded once, to
/// nearest even; integers wrap; the minimum and the maximum of a NaN and anything are NaN.
void reduce_in_order(std::span<void* const> outputs, std::span<const void* const> inputs, std::size_t count,
                     const Reduction& reduction);

}  // namespace mn
