/// For the sources of hot loops only.
#pragma once

/// Before a function: one binary serves every x86-64, the loader picks the version for the CPU. CMake defines
/// MN_TARGET_CLONES where compiler and sanitizers allow it.
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx2", "default")))
#else
#define MN_SIMD
#endif
