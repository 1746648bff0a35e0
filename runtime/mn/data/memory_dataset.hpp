/// Datasets in this process's memory.
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
  /// Takes ownership of `samples`. If a field has kCountClasses classes, counts the classes. Throws ArgumentError
  /// unless check_samples() accepts the samples.
  MemoryDataset(SampleSpec spec, RawSamples samples);
  /// Takes ownership of pieces with consecutive samples. The pieces are not joined, because joining needs twice their
  /// memory. The spec must have the numbers of classes. Throws ArgumentError unless check_samples() accepts each piece.
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

/// Reads a pair of IDX files (MNIST's format), raw or gzip: N images, or other arrays of unsigned bytes, and their N
/// labels. Throws a DataError that names the file if a file can't be read, is truncated, or has a wrong magic number or
/// count.
[[nodiscard]] std::shared_ptr<MemoryDataset> read_idx_dataset(const std::filesystem::path& images,
                                                              const std::filesystem::path& labels);

}  // namespace mn
