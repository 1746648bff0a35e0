/// Rotary embeddings of positions (Su et al. 2021, RoFormer, arXiv:2104.09864).
///
/// Attention rotates queries and keys before their product. A head's elements i and i + width/2 are a point in a plane,
/// which position p rotates by the angle p · f(i). Therefore the product depends on the distance of two positions.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/models/network_options.hpp>

namespace mn::models {

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
