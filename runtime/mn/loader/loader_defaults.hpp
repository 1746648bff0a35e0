/// Defaults of LoaderOptions, and the sampler of a loader's steps.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/data/sampler.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Number of threads besides the workers that each wait for the files of a batch.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

/// A sampler of the whole dataset. If the loader reads by part, or the root sent the part from its memory, a sampler of
/// this rank's part. Throws UsageError as Sampler does.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options);

}  // namespace mn
