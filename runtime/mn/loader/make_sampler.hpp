/// The sampler of a loader's steps.
#pragma once

#include <memory>

#include <mn/data/sampler.hpp>
#include <mn/loader/loader_options.hpp>

namespace mn {

/// A sampler of the whole dataset, or of this rank's part if the loader reads by part or the part is in memory. Throws
/// UsageError.
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SubDataset& dataset, const LoaderOptions& options);

}  // namespace mn
