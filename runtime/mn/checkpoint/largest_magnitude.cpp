#include <mn/checkpoint/largest_magnitude.hpp>

#include <algorithm>

// At load time the dynamic linker picks the widest version that the CPU supports; CMake sets MN_TARGET_CLONES if the
// compiler can do so.
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MN_SIMD
#endif

namespace mn {
namespace {

template <class T>
inline __attribute__((always_inline)) T largest_of(const std::byte* bytes, std::size_t count) {
  constexpr T kWithoutSign = static_cast<T>(-1) >> 1;
  const T* numbers = reinterpret_cast<const T*>(bytes);
  T largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max<T>(largest, numbers[i] & kWithoutSign);
  return largest;
}

MN_SIMD std::uint64_t largest_of_2(const std::byte* bytes, std::size_t count) {
  return largest_of<std::uint16_t>(bytes, count);
}
MN_SIMD std::uint64_t largest_of_4(const std::byte* bytes, std::size_t count) {
  return largest_of<std::uint32_t>(bytes, count);
}
MN_SIMD std::uint64_t largest_of_8(const std::byte* bytes, std::size_t count) {
  return largest_of<std::uint64_t>(bytes, count);
}

}  // namespace

std::uint64_t largest_magnitude(std::span<const std::byte> numbers, std::size_t bytes_each) {
  const std::size_t count = numbers.size() / bytes_each;
  if (bytes_each == 2) return largest_of_2(numbers.data(), count);
  if (bytes_each == 4) return largest_of_4(numbers.data(), count);
  return largest_of_8(numbers.data(), count);
}

}  // namespace mn
