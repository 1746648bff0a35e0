/// Defaults of LoaderOptions, and the sampler of a loader's steps.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/data/sampler.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Threads besides the workers, each waiting for the files of a batch.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

/// A sampler of the whole dataset, or of this rank's part if the loader reads by part or the part is in memory. Throws
/// UsageError.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options);

}  // namespace mn
