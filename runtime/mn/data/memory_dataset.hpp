/// Datasets in this process's memory: an array for each field, or the pieces in which the samples arrived.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// Samples in this process's memory.
class MemoryDataset final : public Dataset {
 public:
  /// Takes ownership of `samples`, and counts classes. Throws ArgumentError unless check_samples() accepts them.
  MemoryDataset(SampleSpec spec, RawSamples samples);
  /// Takes ownership of pieces that follow one another; joining the pieces would take twice their memory. Classes must
  /// be counted already. Throws ArgumentError unless check_samples() accepts each piece.
  MemoryDataset(SampleSpec spec, std::vector<RawSamples> pieces);

 private:
  std::int64_t do_size() const override { return firsts_.back(); }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  std::uint64_t do_fingerprint() const override;
  StorageLayout do_layout() const override;
  [[nodiscard]] SamplePlace locate(std::int64_t index) const;

  SampleSpec spec_;
  std::vector<RawSamples> pieces_;
  std::vector<std::int64_t> firsts_ = {0};  // [pieces + 1]
};

/// A pair of IDX files (MNIST's format), raw or gzip: images (or any array of N × shape, unsigned byte) and labels.
/// Throws DataError that names a file that is unreadable, truncated, has a wrong magic, or a wrong count.
[[nodiscard]] std::shared_ptr<MemoryDataset> read_idx_dataset(const std::filesystem::path& images,
                                                              const std::filesystem::path& labels);

}  // namespace mn
