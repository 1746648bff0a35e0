/// Several datasets joined to one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// Datasets, one after another (torch's ConcatDataset). If all are made of shards, scatter_dataset() sends no samples.
class JoinedDataset final : public Dataset {
 public:
  /// The first use opens the parts. It throws UsageError if their specs differ, class names included. `shares` is
  /// empty, or has the share of each part in a mixture: weights() then gives all samples of a part equal weights, whose
  /// sum is the part's share. weights() throws UsageError if a part with a share has no samples. The constructor throws
  /// ArgumentError if there is no part, if a part is null, or if `shares` is neither empty nor as long as `parts`.
  explicit JoinedDataset(std::vector<std::shared_ptr<Dataset>> parts, std::vector<double> shares = {});

 private:
  std::int64_t do_size() const override { return firsts().back(); }
  const SampleSpec& do_spec() const override;
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override;
  RawColumn do_read_field(std::span<const std::int64_t> indices, std::size_t field) const override;
  std::string do_table() const override;
  std::string do_format() const override;
  std::uint64_t do_fingerprint() const override;
  IoStats do_io() const override;
  std::string do_where(std::int64_t index) const override;
  std::vector<double> do_weights() const override;
  StorageLayout do_layout() const override;
  void do_share(int ranks) override;
  void do_hold_at_most(std::int64_t bytes) const override;
  void do_stage(const StageOptions& options, std::shared_ptr<const data::StageNode> node) override;

  [[nodiscard]] const std::vector<std::int64_t>& firsts() const;
  /// Returns the number of the part that has the sample, and the sample's number in this part.
  [[nodiscard]] std::pair<std::size_t, std::int64_t> locate(std::int64_t index) const;
  /// Those samples of a read that lie in one part.
  struct Wanted {
    std::vector<std::int64_t> numbers;    ///< number of each sample in the part
    std::vector<std::int64_t> positions;  ///< position of each sample in `indices`
  };
  /// Reads the wanted samples of a part into `piece`.
  using ReadPart = std::function<void(const Dataset& part, const Wanted& wanted, RawSamples& piece)>;
  /// Calls read() for each part that has some of the samples `indices`. Copies the samples to `out` in the order of
  /// `indices`. `spec` describes the fields that read() delivers.
  void read_parts(std::span<const std::int64_t> indices, const SampleSpec& spec, RawSamples& out,
                  const ReadPart& read) const;

  std::vector<std::shared_ptr<Dataset>> parts_;
  std::vector<double> shares_;
  mutable std::once_flag opened_;
  mutable std::vector<std::int64_t> firsts_;  // [parts + 1]; empty before the first use
};

}  // namespace mn
