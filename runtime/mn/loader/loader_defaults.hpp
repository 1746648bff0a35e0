/// Defaults of LoaderOptions, and the sampler that decides which samples each step of a loader has.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/data/sampler.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Number of threads that read the samples of batches, in addition to the workers. Each reads one batch at a time.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

/// Makes the sampler of a loader. It takes samples of the whole dataset; if options.by_part is true, or if the root
/// sent parts from its memory, it takes only samples of this rank's part. Throws UsageError as Sampler does.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options);

}  // namespace mn
