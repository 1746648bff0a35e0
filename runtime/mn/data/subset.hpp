/// Some samples of a dataset: torch's Subset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// Returns the numbers of the chosen samples of `dataset`, in the order of the subset.
using ChooseSamples = std::function<std::vector<std::int64_t>(const Dataset& dataset)>;

/// Makes a dataset of the samples `indices` of `dataset`, in this order; a sample may come several times. The first use
/// throws ArgumentError if an index is out of range. From shards, scatter_dataset() sends no samples.
[[nodiscard]] std::shared_ptr<Dataset> subset(std::shared_ptr<Dataset> dataset, std::vector<std::int64_t> indices);

/// Makes a subset of the samples that `choose` returns. The first use of the subset calls `choose` once; with
/// scatter_dataset() only the root calls it. For example, the samples of class 3 (tests/data/header_examples_test.cpp):
///
///   const auto threes = mn::choose_subset(mn::open_dataset("mnist/train"), [](const mn::Dataset& digits) {
///     std::vector<std::int64_t> all(digits.size()), chosen;
///     std::iota(all.begin(), all.end(), 0);
///     const mn::RawColumn labels = digits.read_field(all, 1);
///     for (const std::int64_t i : all) {
///       if (labels.values<std::int64_t>()[i] == 3) chosen.push_back(i);
///     }
///     return chosen;
///   });
[[nodiscard]] std::shared_ptr<Dataset> choose_subset(std::shared_ptr<Dataset> dataset, ChooseSamples choose);

/// Reads numbers, separated by blanks or line ends, from a text file, such as numpy.savetxt(FILE, indices, "%d")
/// writes. If a word is not a whole number below `samples`, throws a DataError that names the file and the word.
[[nodiscard]] std::vector<std::int64_t> read_indices(const std::filesystem::path& file,
                                                     std::int64_t samples = std::numeric_limits<std::int64_t>::max());

}  // namespace mn
