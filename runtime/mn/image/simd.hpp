/// Defines the macro MN_SIMD for loops that take much time. Include this header only in sources with such loops.
#pragma once

/// Compiles a function twice, with AVX2 and without. The dynamic linker picks the version for the CPU. CMake defines
/// MN_TARGET_CLONES if compiler and sanitizers allow several versions.
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define MN_SIMD
#endif
