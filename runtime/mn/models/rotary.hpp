/// Rotary embeddings of positions (Su et al. 2021, RoFormer, arXiv:2104.09864).
///
/// Attention rotates queries and keys before their product. A head's elements i and i + width/2 are a point in a plane,
/// which position p rotates by the angle p · f(i). Therefore the product depends on the distance of two positions.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mn::models {

/// The frequencies f(i) of rotary embeddings: base^(−2i / width), and their scaling for longer contexts.
struct RotaryOptions {
  /// How the frequencies are scaled.
  enum class Scaling : std::uint8_t {
    kNone,    ///< as they are
    kLinear,  ///< all frequencies are divided by `factor`
    kLlama3,  ///< low frequencies are divided by `factor`, high ones are kept, and those between are blended
  };
  double base = 10000;               ///< the b in f(i) = b^(−2i / width)
  Scaling scaling = Scaling::kNone;  ///< for contexts longer than in an earlier training
  double factor = 1;                 ///< by which low frequencies are divided
  double low = 1;   ///< kLlama3: frequencies with fewer periods in `original_context` positions are low
  double high = 4;  ///< kLlama3: frequencies with more periods in `original_context` positions are high
  std::int64_t original_context = 8192;  ///< kLlama3: context of the training before the scaling
};

/// The angles of positions, as (T, width / 2) in float32.
struct Rotation {
  at::Tensor cosine;  ///< cosines of the angles
  at::Tensor sine;    ///< sines of the angles
};

/// The angles of `length` positions, from position `first` on, for heads of `width` elements, an even number.
[[nodiscard]] Rotation rotation_of(std::int64_t first, std::int64_t length, std::int64_t width,
                                   const RotaryOptions& options, at::Device device);

/// Rotates x, (N, heads, T, width), by the angles of its positions. The result has x's type.
[[nodiscard]] at::Tensor rotate(const at::Tensor& x, const Rotation& rotation);

}  // namespace mn::models
