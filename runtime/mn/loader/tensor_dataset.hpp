/// Samples in tensors: any number of fields, of any dtypes and shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// Tensors with samples as their first dimension: inputs and targets of any kind (regression, sequences, pairs).
class TensorDataset {
 public:
  /// No samples: for ranks that receive rank 0's samples.
  TensorDataset() = default;
  /// Shares the memory of tensors that are contiguous and on the CPU. Throws ArgumentError if there is no tensor, a
  /// tensor has no first dimension, or first dimensions differ. Fields without a name are called "data", "target", "2",
  /// "3", …
  explicit TensorDataset(std::vector<at::Tensor> fields, std::vector<std::string> names = {});
  /// The fields are {data, target}.
  TensorDataset(at::Tensor data, at::Tensor target)
      : TensorDataset(std::vector<at::Tensor>{std::move(data), std::move(target)}) {}

  /// Number of samples; 0 without tensors.
  [[nodiscard]] std::int64_t size() const { return fields_.empty() ? 0 : fields_.front().size(0); }
  /// Contiguous, on the CPU.
  [[nodiscard]] const std::vector<at::Tensor>& fields() const noexcept { return fields_; }
  /// Name of each field.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  /// A hash of dtypes, shapes and bytes, not of names.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::vector<at::Tensor> fields_;
  std::vector<std::string> names_;
};

/// How a TensorLoader walks its samples.
struct TensorLoaderOptions {
  std::int64_t batchsize = 1;  ///< samples of a minibatch on each rank
  bool shuffle = false;        ///< a new order each epoch
  std::uint64_t seed = 0;      ///< seed of the order
  bool drop_last = false;      ///< leaves a last, short step out
  bool even_last = true;       ///< the last two steps share the remaining samples evenly; false: the last step is short
};

/// Steps over a TensorDataset, epoch after epoch: step k holds the same samples for any number of ranks (where
/// batchsize × ranks is the same), each sample comes exactly once in an epoch, and a state resumes with any number of
/// ranks.
///
/// Every rank holds all samples. Batches arrive on the communicator's device, with the fields by position and by
/// name: field 0 is Batch::data, field 1 Batch::target. For data that a node's memory cannot hold, make shards
/// (mnshard).
class TensorLoader final : public Iterator {
 public:
  /// Collective. Either every rank gives equal samples, or rank 0 alone gives samples, which it sends to all ranks.
  /// Throws an equal ArgumentError on every rank if the samples differ; UsageError as Sampler does.
  TensorLoader(TensorDataset dataset, const std::shared_ptr<Communicator>& comm, const TensorLoaderOptions& options);
  ~TensorLoader() override;

  /// The next batch; no value, once, at the end of each epoch.
  [[nodiscard]] std::optional<Batch> next() override;
  /// Finished epochs.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch() and the fraction of the current epoch handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// Equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// The state for load_state() to continue after the last batch; equal on all ranks.
  [[nodiscard]] nlohmann::json state() const override;
  /// Throws DataError if the state is of other samples.
  void load_state(const nlohmann::json& state) override;
  /// Nothing is read: 0.
  [[nodiscard]] double data_wait_s() const override { return 0; }
  /// The communicator's.
  [[nodiscard]] int ranks() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn
