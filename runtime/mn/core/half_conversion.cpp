#include <mn/core/half_conversion.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <mn/core/half.hpp>

namespace mn {
namespace {

void widen_portably(float* __restrict out, const Float16* __restrict in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = to_float(in[i]);
}

void narrow_portably(Float16* __restrict out, const float* __restrict in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = to_float16(in[i]);
}

#if defined(__x86_64__)

__attribute__((target("avx2,f16c"))) void widen_f16c(float* out, const Float16* in, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  widen_portably(out + i, in + i, count - i);
}

__attribute__((target("avx2,f16c"))) void narrow_f16c(Float16* out, const float* in, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  narrow_portably(out + i, in + i, count - i);
}

void add_those_of_the_cpu(std::vector<HalfConversion>& all) {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
    all.push_back({"F16C", widen_f16c, narrow_f16c});
}

#else

void add_those_of_the_cpu(std::vector<HalfConversion>& /*all*/) {}

#endif

const HalfConversion& best() {
  static const HalfConversion chosen = half_conversions().front();
  return chosen;
}

}  // namespace

std::vector<HalfConversion> half_conversions() {
  std::vector<HalfConversion> all;
  add_those_of_the_cpu(all);
  all.push_back({"portable", widen_portably, narrow_portably});
  return all;
}

void widen(float* out, const Float16* in, std::size_t count) { best().widen(out, in, count); }

void narrow(Float16* out, const float* in, std::size_t count) { best().narrow(out, in, count); }

}  // namespace mn
