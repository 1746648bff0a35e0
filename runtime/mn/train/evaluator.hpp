/// Evaluators: run a model over a data set and say how good it is.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/iterator.hpp>
#include <mn/train/summary.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

/// Adds a minibatch's metrics, each weighed by its samples, e.g. report.add("loss", loss, batch.samples).
using EvaluateBatch = std::function<void(const Batch& batch, Summary& report)>;

/// Evaluates on one rank. Derive from it for weighted sums that no per-batch mean can express, and pass that to
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

/// What aggregate() needs of a minibatch: scores and targets, a maximum, …
using CalcLocal = std::function<nlohmann::json(const Batch& batch)>;
/// Makes metrics of the values of all minibatches.
using Aggregate = std::function<Metrics(const std::vector<nlohmann::json>& values)>;

/// For metrics that are no weighted means, such as AUC or a maximum; ChainerMN's GenericMultiNodeEvaluator. Each rank
/// runs `calc_local` on the minibatches of one epoch as create_evaluator() would; rank 0 gets the values of all ranks,
/// by rank, and aggregates them; its metrics are evaluate()'s on every rank (collective), and so is an error of
/// `aggregate`. evaluate_local() aggregates this rank's values alone. All values must fit rank 0's memory.
[[nodiscard]] std::unique_ptr<Evaluator> create_generic_multi_node_evaluator(std::shared_ptr<Iterator> iterator,
                                                                             std::shared_ptr<torch::nn::Module> model,
                                                                             CalcLocal calc_local, Aggregate aggregate,
                                                                             std::shared_ptr<Communicator> comm);

/// Its evaluate() is collective and returns, on every rank, the mean over all ranks' samples.
[[nodiscard]] std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                                     std::shared_ptr<Communicator> comm);

}  // namespace mn
