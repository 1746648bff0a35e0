/// One rank's part of a dataset, and the rule that divides a dataset into parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// How a dataset is divided between ranks.
struct ScatterOptions {
  bool shuffle = false;    ///< parts are cut from a random order of the samples, the same order on all ranks
  std::uint64_t seed = 0;  ///< seed of the random order; `seed` and `shuffle` are also the defaults of a DataLoader
  int root = 0;            ///< rank that reads the dataset's metadata, or has the samples in memory
  /// True: all parts have the same length, so two parts may share a sample at their border. False: each sample is in
  /// one part, and the lengths differ by at most 1.
  bool force_equal_length = true;
  StageOptions stage = {};  ///< copies of shards on each node
};

/// The range [first, last) of n samples that is the rank's part. With equal lengths, the part begins at ⌊n·rank/size⌋
/// and has ⌈n/size⌉ samples. Otherwise it has ⌊n/size⌋ samples, and one more on the first n mod size ranks.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> scatter_index(std::int64_t n, int rank, int size,
                                                                  bool force_equal_length = true);

/// The numbers, in the whole dataset, of the samples in the rank's part, in the part's order.
[[nodiscard]] std::vector<std::int64_t> part_indices(std::int64_t n, int rank, int size, const ScatterOptions& options);

/// A rank's part of a dataset in the root's memory, as the root sends it.
struct ScatteredPart {
  std::shared_ptr<const Dataset> samples;  ///< the samples of the part, in order
  std::int64_t global_size = 0;            ///< number of samples of the whole dataset
  std::uint64_t fingerprint = 0;           ///< fingerprint of the whole dataset
};

/// One rank's part of a dataset, with samples numbered from 0.
class SubDataset final : public Dataset {
 public:
  /// Makes part `rank` of `ranks` of a dataset that every rank can read.
  SubDataset(std::shared_ptr<const Dataset> shared, int rank, int ranks, const ScatterOptions& options);
  /// Makes part `rank` of `ranks` from samples in this process's memory.
  SubDataset(ScatteredPart part, int rank, int ranks, const ScatterOptions& options);

  /// Number of samples of the whole dataset.
  [[nodiscard]] std::int64_t global_size() const noexcept { return global_size_; }
  /// How many samples, the first of this part, count as unique. The unique samples of all ranks' parts are the whole
  /// dataset, each sample once.
  [[nodiscard]] std::int64_t unique_size() const noexcept { return unique_size_; }
  /// The unique_size() of another rank's part.
  [[nodiscard]] std::int64_t unique_size(int rank) const;
  /// Converts sample numbers in the part to sample numbers in the whole dataset.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::span<const std::int64_t> indices) const;
  /// The whole dataset, if this rank can read any sample of it; null if the root sent the samples from its memory.
  [[nodiscard]] const std::shared_ptr<const Dataset>& shared() const noexcept { return shared_; }

  /// Number of this part.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Number of parts.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  /// The options given to the constructor.
  [[nodiscard]] const ScatterOptions& options() const noexcept { return options_; }

 private:
  std::int64_t do_size() const override { return last_ - first_; }
  const SampleSpec& do_spec() const override { return (shared_ ? shared_ : part_)->spec(); }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  std::uint64_t do_fingerprint() const override { return fingerprint_; }
  IoStats do_io() const override { return (shared_ ? shared_ : part_)->io(); }
  void do_hold_at_most(std::int64_t bytes) const override { (shared_ ? shared_ : part_)->hold_at_most(bytes); }
  std::string do_where(std::int64_t index) const override;

  std::shared_ptr<const Dataset> shared_;  // either shared_ or part_ is set
  std::shared_ptr<const Dataset> part_;
  ScatterOptions options_;
  int rank_;
  int ranks_;
  std::int64_t global_size_;
  std::uint64_t fingerprint_;
  std::int64_t first_ = 0;  // the part is positions [first_, last_) in the order of all samples
  std::int64_t last_ = 0;
  std::int64_t unique_size_ = 0;
};

}  // namespace mn
