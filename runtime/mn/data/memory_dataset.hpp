/// Datasets whose samples lie in this process's memory: as one array for each field, or in the pieces in which they
/// arrived.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// Samples in this process's memory.
class MemoryDataset final : public Dataset {
 public:
  /// Takes `samples` over. Throws ArgumentError unless they are such samples (check_samples()); counts classes.
  MemoryDataset(SampleSpec spec, RawSamples samples);
  /// Takes over pieces that follow one another: to join them would take their memory twice. Classes must be counted
  /// already. Throws ArgumentError unless the pieces are such samples.
  MemoryDataset(SampleSpec spec, std::vector<RawSamples> pieces);

 private:
  std::int64_t do_size() const override { return firsts_.back(); }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  std::uint64_t do_fingerprint() const override;
  StorageLayout do_layout() const override;
  /// The piece of a sample, and its number there.
  [[nodiscard]] std::pair<const RawSamples*, std::int64_t> locate(std::int64_t index) const;

  SampleSpec spec_;
  std::vector<RawSamples> pieces_;
  std::vector<std::int64_t> firsts_ = {0};  // [pieces + 1]
};

/// A pair of IDX files (MNIST's format), raw or gzip: images (or any array of N × shape, unsigned byte) and labels.
/// Throws DataError that names the file if one is unreadable, truncated, has a wrong magic or another count.
[[nodiscard]] std::shared_ptr<MemoryDataset> read_idx_dataset(const std::filesystem::path& images,
                                                              const std::filesystem::path& labels);

}  // namespace mn
