/// Evaluators: run a model over a data set and say how good it is.
#pragma once

#include <functional>
#include <memory>

#include <torch/nn/module.h>

#include <mn/data/iterator.hpp>
#include <mn/train/summary.hpp>

namespace mn {

/// Adds a minibatch's metrics, each weighed by its samples, e.g. report.add("loss", loss, batch.samples).
using EvaluateBatch = std::function<void(const Batch& batch, Summary& report)>;

/// Evaluates on one rank. Derive from it for what no per-batch mean can express, and pass that to
/// create_multi_node_evaluator.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Weighted sums over this rank's samples.
  [[nodiscard]] virtual Summary evaluate_local() = 0;
  /// The metrics; a multi-node evaluator's are over all ranks (collective).
  [[nodiscard]] virtual Metrics evaluate() { return evaluate_local().mean(); }
};

/// One epoch of `iterator` in evaluation mode and without gradients; the model's mode is put back afterwards.
[[nodiscard]] std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                                          std::shared_ptr<torch::nn::Module> model,
                                                          EvaluateBatch evaluate_batch);

/// Its evaluate() is collective and returns, on every rank, the mean over all ranks' samples.
[[nodiscard]] std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                                     std::shared_ptr<Communicator> comm);

}  // namespace mn
