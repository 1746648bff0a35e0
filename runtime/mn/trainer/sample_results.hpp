/// Results of single samples (scores, boxes, texts), gathered on rank 0 in the order of the dataset.
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
/// ranking. Rank 0 computes the metric as a program on one process would. create_results_evaluator() does the same
/// within a validation.
///
///   mn::SampleResults results;
///   while (const auto batch = loader.next()) {
///     results.add(*batch, {{"score", model->forward(batch->data)}, {"label", batch->target}});
///   }
///   const mn::Batch all = results.gather(*comm);
///   if (comm->rank() == 0) std::cout << average_precision(all["score"], all["label"]);
class SampleResults {
 public:
  /// Local. Adds results of a minibatch's samples, and copies them to the host. A field has a row of `values` for each
  /// sample, or with `offsets` any number of rows: see BatchField, ragged_field(). Throws ArgumentError if the iterator
  /// does not know the samples' numbers (Batch::indices), if a field has more or fewer samples than the minibatch, or
  /// if names, dtypes or shapes of rows differ from those of the first minibatch.
  void add(const Batch& batch, const std::vector<BatchField>& fields);
  /// Collective, and blocks. Returns on rank 0 the results of all ranks, on the CPU, as one minibatch: Batch::indices
  /// ascend, and each sample comes once, even if padding gave it to several ranks. Returns an empty minibatch on other
  /// ranks. Then forgets all results. Rank 0 needs memory for twice all results. Throws the same ArgumentError on every
  /// rank if the fields of ranks differ.
  [[nodiscard]] Batch gather(Communicator& comm);
  /// Local. Returns the results of this rank in the form of gather(), and forgets the results.
  [[nodiscard]] Batch take();

 private:
  /// The results under one name, of all minibatches so far.
  struct Field {
    BatchField form;                 // the field without rows; with offsets if add() got offsets
    std::vector<at::Tensor> values;  // of each minibatch so far
    std::vector<at::Tensor> counts;  // of each minibatch, with offsets: number of rows of each sample
  };
  [[nodiscard]] nlohmann::json forms() const;
  void agree_on_fields(Communicator& comm);

  std::vector<std::int64_t> samples_;  // the samples' numbers in the dataset
  std::vector<Field> fields_;
};

/// Makes a field in which sample i has the rows `rows[i]`, a tensor [any number, …]. All tensors must be equal in
/// dtype, device and the shape of a row. Throws ArgumentError for other tensors, and if `rows` is empty, because the
/// shape of a row is then unknown.
[[nodiscard]] BatchField ragged_field(std::string name, const std::vector<at::Tensor>& rows);

}  // namespace mn
