/// Many tensors on a GPU converted, scaled and moved in one pass over memory.
#pragma once

#include <cstddef>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn {

/// `count` elements on their way from one place to another. The two don't overlap, unless they are the same and of
/// equal dtypes.
struct PackPiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
};

inline constexpr std::size_t kPackPieces = 120;  ///< that one kernel takes

/// to[i] = from[i] × scale for every piece, for float dtypes: computed in float32 (float64 where `from` or `to` is) and
/// rounded to nearest even. Enqueued on `stream` (a cudaStream_t), as one kernel for each kPackPieces pieces. The
/// pieces travel as the kernel's argument: nothing is allocated or copied, and a CUDA graph can capture it. Throws
/// ArgumentError for other dtypes.
void pack_on_device(std::span<const PackPiece> pieces, DType from, DType to, double scale, void* stream);

}  // namespace mn
