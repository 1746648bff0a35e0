/// Collects the results of single samples (scores, boxes, texts), and gathers them on rank 0 in the order of the
/// dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator.hpp>
#include <mn/loader/batch.hpp>

namespace mn {

/// Results of samples, for metrics that need the results of all samples at once: average precision, AUC, BLEU, a
/// ranking. Rank 0 gets the results of all ranks, and computes the metric as a program with a single process would.
/// create_results_evaluator() makes an evaluator that works in this way.
///
///   mn::SampleResults results;
///   while (const auto batch = loader.next()) {
///     results.add(*batch, {{"score", model->forward(batch->data)}, {"label", batch->target}});
///   }
///   const mn::Batch all = results.gather(*comm);
///   if (comm->rank() == 0) std::cout << average_precision(all["score"], all["label"]);
class SampleResults {
 public:
  /// Local. Adds the results of a minibatch's samples, and copies them to the host. In a field without `offsets`,
  /// `values` has one row for each sample. In a field with `offsets`, a sample may have any number of rows; see
  /// BatchField and ragged_field(). Throws ArgumentError if the iterator does not know the samples' numbers
  /// (Batch::indices), if a field has more or fewer samples than the minibatch, or if names, dtypes or shapes of rows
  /// differ from those of the first minibatch.
  void add(const Batch& batch, const std::vector<BatchField>& fields);
  /// Collective, and blocks. On rank 0, returns the results of all ranks as one minibatch on the CPU. Its
  /// Batch::indices ascend, and each sample is in it once, even if padding gave the sample to several ranks. On all
  /// other ranks, returns an empty minibatch. Afterwards, this object has no results. Rank 0 needs memory for twice all
  /// results. Throws the same ArgumentError on every rank if the ranks have different fields.
  [[nodiscard]] Batch gather(Communicator& comm);
  /// Local. Returns only the results of this rank, in the form of gather()'s result. Afterwards, this object has no
  /// results.
  [[nodiscard]] Batch take();

 private:
  /// The results in one field, of all minibatches so far.
  struct Field {
    BatchField form;                 // the field without rows; with offsets if add() got offsets
    std::vector<at::Tensor> values;  // for each minibatch so far, its rows
    std::vector<at::Tensor> counts;  // if there are offsets: for each minibatch, the number of rows of each sample
  };
  [[nodiscard]] nlohmann::json forms() const;
  void agree_on_fields(Communicator& comm);

  std::vector<std::int64_t> samples_;  // the samples' numbers in the dataset
  std::vector<Field> fields_;
};

/// Makes a field in which sample i has the rows `rows[i]`, a tensor of shape [any number, …]. All tensors must have the
/// same dtype, device and shape of a row; otherwise throws ArgumentError. Also throws ArgumentError if `rows` is empty,
/// because the shape of a row is then unknown.
[[nodiscard]] BatchField ragged_field(std::string name, const std::vector<at::Tensor>& rows);

}  // namespace mn
