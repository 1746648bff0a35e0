/// Defaults of LoaderOptions.
#pragma once

#include <cstdint>

namespace mn {

/// Threads besides the workers, each waiting for the files of a batch.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

}  // namespace mn
