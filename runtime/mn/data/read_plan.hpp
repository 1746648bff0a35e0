/// Plans a read of samples: lists the blocks to read, and joins neighboring blocks into runs, one request each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <mn/data/stored_table.hpp>

namespace mn::data {

/// The samples [first, first + count) of a read, which one request reads: they lie in one block, or each is alone in
/// its block and these blocks are neighbors.
struct ReadRun {
  std::size_t first;
  std::size_t count;
};

/// Where one field of a sample lies in the file.
struct BlockExtent {
  std::int64_t block = 0;
  std::int64_t offset = 0;  ///< offset of the sample in the block
  std::int64_t bytes = 0;
  bool is_alone = false;  ///< the block has only this sample, and is read straight into the result
  bool has_runs = false;  ///< one request can read the block and its neighbors
};

/// The samples of a read, in the order of the read's indices.
class ReadPlan {
 public:
  /// A sample counts as unreadable until locate_fields() is called for it.
  ReadPlan(std::size_t fields, std::size_t n) : samples_(n), extents_(fields) {}

  void locate(std::size_t k, std::size_t file, std::int64_t sample) { samples_[k] = {file, sample}; }
  /// Records where the fields of sample k lie in `file`, its open file. Leaves out fields that are in memory.
  void locate_fields(std::size_t k, const StoredFile& file) {
    const std::int64_t sample = samples_[k].sample;
    for (std::size_t f = 0; f < extents_.size(); ++f) {
      if (file.is_small(f)) continue;
      extents_[f].resize(samples_.size());
      const std::int64_t block = file.block_of(f, sample);
      extents_[f][k] = {.block = block,
                        .offset = file.offset_in_block(f, sample),
                        .bytes = file.length(f, sample),
                        .is_alone = file.samples_in(f, block) == 1,
                        .has_runs = file.has_runs(f)};
    }
    samples_[k].is_readable = true;
  }

  [[nodiscard]] std::size_t size() const noexcept { return samples_.size(); }
  [[nodiscard]] std::size_t file(std::size_t k) const { return samples_[k].file; }
  [[nodiscard]] std::int64_t sample(std::size_t k) const { return samples_[k].sample; }
  [[nodiscard]] bool is_readable(std::size_t k) const { return samples_[k].is_readable; }
  [[nodiscard]] const BlockExtent& at(std::size_t field, std::size_t k) const { return extents_[field][k]; }
  [[nodiscard]] std::set<std::size_t> files() const {
    std::set<std::size_t> files;
    for (const Sample& sample : samples_) files.insert(sample.file);
    return files;
  }

  /// Where each sample of a field begins in the result, then the result's end, if no sample is damaged. A sample that
  /// is not readable gets `unreadable_bytes`.
  [[nodiscard]] std::vector<std::int64_t> offsets(std::size_t field, std::int64_t unreadable_bytes) const {
    std::vector<std::int64_t> offsets = {0};
    for (std::size_t k = 0; k < size(); ++k) {
      offsets.push_back(offsets.back() + (is_readable(k) ? extents_[field][k].bytes : unreadable_bytes));
    }
    return offsets;
  }
  /// Joins the samples k for which is_wanted(k) is true into runs, in ascending order of k.
  template <class IsWanted>
  [[nodiscard]] std::vector<ReadRun> runs(std::size_t field, const IsWanted& is_wanted) const {
    std::vector<ReadRun> runs;
    for (std::size_t k = 0; k < size(); ++k) {
      if (!is_wanted(k)) continue;
      const bool follows = !runs.empty() && runs.back().first + runs.back().count == k && joins(field, k);
      follows ? void(++runs.back().count) : runs.push_back({k, 1});
    }
    return runs;
  }

 private:
  struct Sample {
    std::size_t file = 0;
    std::int64_t sample = 0;  // number of the sample in its file
    bool is_readable = false;
  };

  /// Whether one request can read the samples k − 1 and k together.
  [[nodiscard]] bool joins(std::size_t field, std::size_t k) const {
    if (samples_[k].file != samples_[k - 1].file) return false;
    const BlockExtent& own = extents_[field][k];
    const BlockExtent& before = extents_[field][k - 1];
    if (own.is_alone != before.is_alone) return false;
    return own.is_alone ? own.has_runs && own.block == before.block + 1 : own.block == before.block;
  }

  std::vector<Sample> samples_;
  std::vector<std::vector<BlockExtent>> extents_;  // [fields][samples]; empty if the field is in memory
};

}  // namespace mn::data
