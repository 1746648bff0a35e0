/// A dataset whose samples are in tensors: any number of fields, of any dtypes and shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator.hpp>
#include <mn/data/weighted_draws.hpp>
#include <mn/loader/iterator.hpp>

namespace mn {

/// A dataset of tensors. The first dimension of each tensor counts the samples.
class TensorDataset {
 public:
  /// A dataset without samples, for the ranks to which rank 0 sends its samples.
  TensorDataset() = default;
  /// A tensor that is contiguous and on the CPU shares its memory with the dataset; every other tensor is copied.
  /// Fields without a name are called "data", "target", "2", "3", … Throws ArgumentError if there is no tensor, if a
  /// tensor has no first dimension, or if the first dimensions differ.
  explicit TensorDataset(std::vector<at::Tensor> fields, std::vector<std::string> names = {});
  /// A dataset with two fields, called "data" and "target".
  TensorDataset(at::Tensor data, at::Tensor target)
      : TensorDataset(std::vector<at::Tensor>{std::move(data), std::move(target)}) {}

  /// Number of samples. 0 if there are no tensors.
  [[nodiscard]] std::int64_t size() const { return fields_.empty() ? 0 : fields_.front().size(0); }
  /// The tensors of all fields. They are contiguous and on the CPU.
  [[nodiscard]] const std::vector<at::Tensor>& fields() const noexcept { return fields_; }
  /// Name of each field.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  /// A hash of the tensors' dtypes, shapes and bytes, but not of the names.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::vector<at::Tensor> fields_;
  std::vector<std::string> names_;
};

/// How a TensorLoader divides samples into steps. The options must be equal on all ranks.
struct TensorLoaderOptions {
  std::int64_t batchsize = 1;             ///< samples of a minibatch on each rank
  bool shuffle = false;                   ///< a new order each epoch
  std::uint64_t seed = 0;                 ///< seed of the order
  std::optional<DrawOptions> draws = {};  ///< draws samples by weight instead of `shuffle`
  bool drop_last = false;                 ///< omits a short last step
  bool even_last = true;  ///< the last two steps share the remaining samples evenly; false: a short last step
};

/// Minibatches of a TensorDataset, epoch after epoch. Each sample comes exactly once in an epoch, unless samples are
/// drawn by weight. Step k has the same samples for any number of ranks if batchsize × ranks is the same, and a state
/// can resume with any number of ranks.
///
/// Every rank holds all samples in memory; if they do not fit, make shards (mnshard). Batches arrive on the
/// communicator's device, with the fields by position and by name: field 0 is Batch::data, field 1 is Batch::target.
class TensorLoader final : public Iterator {
 public:
  /// Collective over `comm`; blocks. Either every rank passes equal samples, or only rank 0 passes samples, which are
  /// then sent to all ranks. If the samples of ranks differ, every rank throws an equal ArgumentError. If their options
  /// differ, every rank throws an equal UsageError. Throws UsageError as Sampler does.
  TensorLoader(TensorDataset dataset, const std::shared_ptr<Communicator>& comm, const TensorLoaderOptions& options);
  ~TensorLoader() override;

  /// Returns the next batch. At the end of each epoch, one call returns no value.
  [[nodiscard]] std::optional<Batch> next() override;
  /// How many epochs are completed.
  [[nodiscard]] std::int64_t epoch() const override;
  /// epoch(), plus the fraction of the current epoch that was handed out.
  [[nodiscard]] double epoch_detail() const override;
  /// Steps of one epoch, equal on all ranks.
  [[nodiscard]] std::int64_t steps_per_epoch() const override;
  /// Samples of an epoch over all ranks, and of a full minibatch on one rank.
  [[nodiscard]] EpochSize epoch_size() const override;
  /// The loader's state after the last batch, equal on all ranks. load_state() continues from it.
  [[nodiscard]] nlohmann::json state() const override;
  /// Continues from `state`. Throws DataError if the state comes from a loader with other samples.
  void load_state(const nlohmann::json& state) override;
  /// Always 0: the samples are in memory.
  [[nodiscard]] double data_wait_s() const override { return 0; }
  /// Number of ranks of the communicator.
  [[nodiscard]] int ranks() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn
