/// Batch normalization by given moments, an addition and ReLU, in one pass over memory. This file holds the arguments
/// of the GPU's kernels; a CPU uses libtorch's operators.
///
/// For a value x of a channel with mean m, r = 1/√(variance + eps), weight w and bias b, and with an added value a:
///   y = relu((x − m) r w + b + a)
/// With g = dy, or g = 0 if ReLU made y 0, and with sums over the n values of the channel:
///   da = g,   dw = Σ g (x − m) r,   db = Σ g,   dx = r w (g − db/n − (x − m) r dw/n)
/// If the moments do not depend on x (evaluation), dx = r w g. Without an added value, backward computes ReLU's mask
/// from x, and does not read y.
///
/// x, a, y and their gradients have one type. All other numbers are float, or double if x is.
///
/// Cost on a GPU, in elements read or written for each value of x (in parentheses: with an added value): forward 2 (3),
/// sums of backward 2 (4), dx 3. A team of threads works on each strip: one channel of the images if a channel's values
/// are adjacent (inner > 1), else kStripChannels adjacent channels of all images (inner = 1, channels_last).
/// Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
#pragma once

#include <cstdint>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// The arguments of forward, sums and backward. All memory is contiguous and lies on one GPU. "Real" means double for
/// float64, and float otherwise.
struct BatchNormCall {
  DType dtype = DType::kFloat32;  ///< type of x, y, the added values and their gradients
  std::int64_t outer = 0;         ///< x is (outer, channels, inner)
  std::int64_t channels = 0;      ///< number of channels, C
  std::int64_t inner = 1;         ///< number of adjacent values of a channel
  bool aligned = false;           ///< rows have a multiple of 4 elements, and pointers are multiples of 16 bytes
  bool relu = false;              ///< false: no ReLU, so g is dy
  double count = 1;               ///< n, the divisor of `sums` in backward
  const void* x = nullptr;        ///< the values to normalize
  const void* added = nullptr;    ///< a; null: 0
  const void* mean = nullptr;     ///< m: (C) Real
  const void* invstd = nullptr;   ///< r: (C) Real
  const void* weight = nullptr;   ///< w: (C) Real
  const void* bias = nullptr;     ///< b: (C) Real
  void* y = nullptr;              ///< written by forward
  const void* mask = nullptr;     ///< y, whose zeros are ReLU's mask; null: the mask comes from x
  const void* d_y = nullptr;      ///< dy
  void* d_added = nullptr;        ///< g, written by the sums; null: not wanted
  void* partials = nullptr;       ///< (parts, 2, C) Real, written by the sums: db and dw of each part
  const void* sums = nullptr;     ///< (2, C) Real, read by backward: db and dw of all values; null: evaluation
  void* d_x = nullptr;            ///< written by backward
};

/// Number of adjacent channels of a strip.
inline constexpr std::int64_t kStripChannels = 64;

/// Enqueues forward on `stream` (a cudaStream_t).
void batch_norm_forward_on_device(const BatchNormCall& call, void* stream);
void batch_norm_sums_on_device(const BatchNormCall& call, void* stream);
void batch_norm_backward_on_device(const BatchNormCall& call, void* stream);
/// The number of parts that batch_norm_sums_on_device() writes on the current GPU.
[[nodiscard]] std::int64_t batch_norm_parts_on_device(const BatchNormCall& call);

}  // namespace mn::kernels
