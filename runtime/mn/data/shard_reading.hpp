/// One read of samples from shards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/open_shards.hpp>

namespace mn::data {

/// Dataset::read() of samples of these shards. Thread-safe.
void read_samples(OpenShards& shards, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged);

}  // namespace mn::data
