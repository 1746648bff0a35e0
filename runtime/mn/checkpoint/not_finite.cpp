#include <mn/checkpoint/not_finite.hpp>

#include <algorithm>
#include <cstdint>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>

#include <mn/checkpoint/dtypes.hpp>

// The compiler makes several versions of a function, and the dynamic linker picks the one with the widest vectors of
// the CPU. CMake defines MN_TARGET_CLONES if the compiler can.
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MN_SIMD
#endif

namespace mn {
namespace {

/// Returns the largest bit pattern of all numbers, without their signs. The pattern shows whether any number is
/// infinity or NaN, because the pattern of infinity is larger than the pattern of every finite number, and the pattern
/// of NaN is larger still.
template <class T>
inline __attribute__((always_inline)) std::uint64_t largest_of(const void* data, std::int64_t count) {
  constexpr T kWithoutSign = static_cast<T>(-1) >> 1;
  const T* numbers = static_cast<const T*>(data);
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max<T>(largest, numbers[i] & kWithoutSign);
  return largest;
}

MN_SIMD std::uint64_t largest_of_2(const void* data, std::int64_t count) {
  return largest_of<std::uint16_t>(data, count);
}
MN_SIMD std::uint64_t largest_of_4(const void* data, std::int64_t count) {
  return largest_of<std::uint32_t>(data, count);
}
MN_SIMD std::uint64_t largest_of_8(const void* data, std::int64_t count) {
  return largest_of<std::uint64_t>(data, count);
}

struct Format {
  at::ScalarType type;
  std::uint64_t infinity;  // infinity's bit pattern
  std::uint64_t (*largest)(const void* data, std::int64_t count);
};
constexpr Format kFormats[] = {{at::kHalf, 0x7c00, largest_of_2},
                               {at::kBFloat16, 0x7f80, largest_of_2},
                               {at::kFloat, 0x7f80'0000, largest_of_4},
                               {at::kDouble, 0x7ff0'0000'0000'0000, largest_of_8}};

}  // namespace

bool holds_nan(const at::Tensor& tensor, bool or_infinity) {
  if (tensor.is_complex()) return holds_nan(as_pairs(tensor), or_infinity);
  if (!tensor.is_floating_point()) return false;
  if (tensor.element_size() == 1)
    return holds_nan(tensor.to(at::kFloat), or_infinity);  // few operators know 8-bit floats
  const auto format = std::ranges::find(kFormats, tensor.scalar_type(), &Format::type);
  if (format != std::end(kFormats) && tensor.is_cpu() && tensor.is_contiguous()) {
    const std::uint64_t largest = format->largest(tensor.const_data_ptr(), tensor.numel());
    return or_infinity ? largest >= format->infinity : largest > format->infinity;
  }
  const at::NoGradGuard no_grad;
  return or_infinity ? !at::isfinite(tensor).all().item<bool>() : at::isnan(tensor).any().item<bool>();
}

}  // namespace mn
