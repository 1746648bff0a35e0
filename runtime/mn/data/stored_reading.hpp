/// One read of samples from the files of a dataset.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/open_files.hpp>

namespace mn::data {

/// Dataset::read() for the samples of `files`. Thread-safe.
void read_samples(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged);

}  // namespace mn::data
