/// Samples in this process's memory that arrived in pieces.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// As a MemoryDataset of all pieces one after another, but they stay where they are: to join them would take their
/// memory twice.
class PiecesDataset final : public Dataset {
 public:
  /// Throws ArgumentError unless the pieces' columns match the spec.
  PiecesDataset(SampleSpec spec, std::vector<RawSamples> pieces);

 private:
  std::int64_t do_size() const override { return firsts_.back(); }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  StorageLayout do_layout() const override;
  /// The piece of a sample, and its number there.
  [[nodiscard]] std::pair<const RawSamples*, std::int64_t> locate(std::int64_t index) const;

  SampleSpec spec_;
  std::vector<RawSamples> pieces_;
  std::vector<std::int64_t> firsts_ = {0};  // [pieces + 1]
};

}  // namespace mn
