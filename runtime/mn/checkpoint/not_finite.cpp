#include <mn/checkpoint/not_finite.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/checkpoint/largest_magnitude.hpp>

namespace mn {
namespace {

/// The bits of infinity for largest_magnitude(); 0 for dtypes that largest_magnitude() does not know.
std::uint64_t infinity_of(at::ScalarType type) {
  if (type == at::kHalf) return 0x7c00;
  if (type == at::kBFloat16) return 0x7f80;
  if (type == at::kFloat) return 0x7f80'0000;
  if (type == at::kDouble) return 0x7ff0'0000'0000'0000;
  return 0;
}

}  // namespace

bool holds_nan(const at::Tensor& tensor, bool or_infinity) {
  if (tensor.is_complex()) return holds_nan(as_pairs(tensor), or_infinity);
  if (!tensor.is_floating_point()) return false;
  if (tensor.element_size() == 1)
    return holds_nan(tensor.to(at::kFloat), or_infinity);  // few operators know 8-bit floats
  const std::uint64_t infinity = infinity_of(tensor.scalar_type());
  if (infinity != 0 && tensor.is_cpu() && tensor.is_contiguous()) {
    const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    const std::uint64_t largest = largest_magnitude(bytes, tensor.element_size());
    return or_infinity ? largest >= infinity : largest > infinity;
  }
  const at::NoGradGuard no_grad;
  return or_infinity ? !at::isfinite(tensor).all().item<bool>() : at::isnan(tensor).any().item<bool>();
}

}  // namespace mn
