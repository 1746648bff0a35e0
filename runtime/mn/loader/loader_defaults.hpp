/// Defaults of LoaderOptions, and the sampler of a loader's steps.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/data/sampler.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// Number of threads, in addition to the workers, that read the samples of batches. Each waits for the files of one
/// batch.
inline constexpr int kReadAhead = 7;

[[nodiscard]] int default_workers();
[[nodiscard]] int default_prefetch(int workers);
[[nodiscard]] std::int64_t default_prefetch_bytes();

/// Makes the sampler of a loader. It takes samples of the whole dataset, or of this rank's part if options.by_part is
/// true or the root sent the part from its memory. Throws UsageError as Sampler does.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options);

}  // namespace mn
