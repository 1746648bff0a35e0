/// Evaluators run a model over a dataset and return metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/summary.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

class Communicator;

/// Adds the metrics of a minibatch, each weighted by what it is a mean over: report.add("loss", loss, batch.samples),
/// or its tokens.
using EvaluateBatch = std::function<void(const Batch& batch, Summary& report)>;

/// Evaluates on one rank. Derive from it where a function for each minibatch is not enough, and pass the object to
/// create_multi_node_evaluator(). The extension Validation runs an evaluator during training.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Weighted sums over this rank's samples.
  [[nodiscard]] virtual Summary evaluate_local() = 0;
  /// The same, in a call that all ranks of `comm` make: what create_multi_node_evaluator() calls. An evaluator that
  /// makes collective calls may agree with the other ranks here.
  [[nodiscard]] virtual Summary evaluate_with(Communicator& /*comm*/) { return evaluate_local(); }
  /// The metrics of this rank; a multi-node evaluator's are over all ranks, and its call is collective.
  [[nodiscard]] virtual Metrics evaluate() { return evaluate_local().mean(); }
  /// From now on evaluations call `pauses` (Trainer::pauses()) before each minibatch, and with true after the last.
  /// What it throws ends them as if they had not begun. An evaluator that wraps another passes it on.
  virtual void set_pauses(std::function<void(bool is_done)> pauses) { pauses_ = std::move(pauses); }

 protected:
  std::function<void(bool is_done)> pauses_;  ///< may be empty
};

/// Evaluates one epoch of `iterator`, with the model in evaluation mode and without gradients; the modes of its modules
/// are restored. Minibatches without samples are skipped, or an error that names the rank if `evaluate_batch` makes
/// collective calls.
/// `most_batches`, if not 0, ends it early, and leaves the iterator there: for trying things out.
[[nodiscard]] std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                                          std::shared_ptr<torch::nn::Module> model,
                                                          EvaluateBatch evaluate_batch, std::int64_t most_batches = 0);

/// Returns what Aggregate needs of a minibatch: scores and targets, a maximum, …
using CalcLocal = std::function<nlohmann::json(const Batch& batch)>;
/// Returns the metrics of the values of all minibatches.
using Aggregate = std::function<Metrics(const std::vector<nlohmann::json>& values)>;

/// For metrics that are not averages, such as AUC or a maximum: ChainerMN's GenericMultiNodeEvaluator. evaluate() is
/// collective: each rank runs `calc_local` on the minibatches of one epoch as create_evaluator() would; rank 0 gathers
/// the values, in rank order, and aggregates them; every rank returns its metrics. An error in `aggregate` becomes the
/// same ArgumentError on every rank. evaluate_local() aggregates this rank's values alone. Rank 0's memory must hold
/// the values of all ranks.
[[nodiscard]] std::unique_ptr<Evaluator> create_generic_multi_node_evaluator(std::shared_ptr<Iterator> iterator,
                                                                             std::shared_ptr<torch::nn::Module> model,
                                                                             CalcLocal calc_local, Aggregate aggregate,
                                                                             std::shared_ptr<Communicator> comm);

/// Makes an evaluator of one rank one of all ranks: its evaluate() is collective and returns, on every rank, the mean
/// over all ranks' samples. Throws ArgumentError if one of the two is null.
[[nodiscard]] std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                                     std::shared_ptr<Communicator> comm);

}  // namespace mn
