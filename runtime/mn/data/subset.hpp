/// Some samples of a dataset: torch's Subset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// Returns the numbers of the chosen samples of `dataset`, in the order of the subset.
using ChooseSamples = std::function<std::vector<std::int64_t>(const Dataset& dataset)>;

/// Samples `indices` of a dataset, in this order; a sample may come several times. The first use throws ArgumentError
/// if an index is not the number of a sample of `dataset`. If `dataset` is made of shards, scatter_dataset() sends
/// tables, but no samples.
[[nodiscard]] std::shared_ptr<Dataset> subset(std::shared_ptr<Dataset> dataset, std::vector<std::int64_t> indices);

/// The samples that `choose` returns. The first use of the subset calls `choose` once; with scatter_dataset() only the
/// root calls it. For example, the samples of class 3 (tests/data/header_examples_test.cpp):
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

/// The numbers in a text file, separated by line ends or blanks, as numpy.savetxt(FILE, indices, "%d") writes them. If
/// a word is not a whole number of at least 0, throws a DataError that names the file and the word.
[[nodiscard]] std::vector<std::int64_t> read_indices(const std::filesystem::path& file);

}  // namespace mn
