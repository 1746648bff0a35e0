/// What a DataLoader takes where LoaderOptions do not say.
#pragma once

#include <cstdint>

namespace mn {

/// Threads beside the workers that wait for files, a batch each.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

}  // namespace mn
