/// Evaluators: objects that run a model over a dataset and return metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/loader/iterator.hpp>
#include <mn/trainer/sample_results.hpp>
#include <mn/trainer/summary.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

/// Adds the metrics of one minibatch to `report`. Each metric is a mean with a weight: the number of samples or tokens.
using EvaluateBatch = std::function<void(const Batch& batch, Summary& report)>;

/// Evaluates a model on one rank. If a function for each minibatch is not enough, derive from Evaluator and pass the
/// object to create_multi_node_evaluator(). The extension Validation runs an evaluator during training.
///
/// Example (tests/train/header_examples_test.cpp):
///
///   const auto evaluate = [model](const Batch& batch, Summary& report) mutable {
///     const at::Tensor is_correct = model->forward(batch.data).argmax(1).eq(batch.target);
///     report.add("accuracy", is_correct.to(at::kFloat).mean(), static_cast<double>(batch.samples));
///   };
///   auto evaluator = create_multi_node_evaluator(create_evaluator(iterator, model.ptr(), evaluate), comm);
///   const Metrics over_all_ranks = evaluator->evaluate();
///   trainer.extend(std::make_unique<extensions::Validation>(std::move(evaluator)));
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Evaluates this rank's samples. Returns weighted sums.
  [[nodiscard]] virtual Summary evaluate_local() = 0;
  /// Collective: does the work of evaluate_local() for create_multi_node_evaluator(). An evaluator that makes
  /// collective calls may agree with the ranks of `comm` here.
  [[nodiscard]] virtual Summary evaluate_with(Communicator& /*comm*/) { return evaluate_local(); }
  /// Returns the metrics of this rank's samples. A multi-node evaluator overrides this function: it is then collective,
  /// and returns the metrics of all ranks' samples.
  [[nodiscard]] virtual Metrics evaluate() { return evaluate_local().mean(); }
  /// From now on evaluations call `pauses` (Trainer::pauses()) with false before each minibatch, and with true after
  /// the last minibatch. If `pauses` throws, the evaluation has no effect. An evaluator that contains an evaluator must
  /// pass `pauses` on.
  virtual void set_pauses(std::function<void(bool is_done)> pauses) { pauses_ = std::move(pauses); }

 protected:
  std::function<void(bool is_done)> pauses_;  ///< may be empty
};

/// Evaluates an epoch of `iterator`, with the model in evaluation mode and without gradients; the modules' modes are
/// restored. Minibatches without samples are skipped. If `evaluate_batch` makes collective calls, such a minibatch is
/// an error that names the rank. For a trial, `most_batches` limits the number of minibatches (0: no limit). The
/// iterator then stays where the evaluation stopped.
[[nodiscard]] std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                                          std::shared_ptr<torch::nn::Module> model,
                                                          EvaluateBatch evaluate_batch, std::int64_t most_batches = 0);

/// Returns the values of one minibatch for Aggregate, for instance scores and targets, or a maximum.
using CalcLocal = std::function<nlohmann::json(const Batch& batch)>;
/// Computes metrics from the values of all minibatches.
using Aggregate = std::function<Metrics(const std::vector<nlohmann::json>& values)>;

/// Makes an evaluator for metrics that are no averages (ChainerMN's GenericMultiNodeEvaluator). evaluate() is
/// collective: each rank runs `calc_local` on the minibatches of an epoch as create_evaluator() would; rank 0 gathers
/// and aggregates the values in rank order; every rank returns rank 0's metrics. An error in `aggregate` becomes the
/// same ArgumentError on every rank. evaluate_local() aggregates this rank's values only. Rank 0's memory must hold the
/// values of all ranks.
[[nodiscard]] std::unique_ptr<Evaluator> create_generic_multi_node_evaluator(std::shared_ptr<Iterator> iterator,
                                                                             std::shared_ptr<torch::nn::Module> model,
                                                                             CalcLocal calc_local, Aggregate aggregate,
                                                                             std::shared_ptr<Communicator> comm);

/// Returns the results of each sample of a minibatch, for SampleResults::add().
using CalcResults = std::function<std::vector<BatchField>(const Batch& batch)>;
/// Computes metrics from the results of all samples, which are in the order of the dataset (SampleResults::gather()).
using AggregateResults = std::function<Metrics(const Batch& all)>;

/// Makes an evaluator for metrics that need the results of single samples (average precision, a ranking). evaluate() is
/// collective: each rank runs `calc_results` on the minibatches of an epoch as create_evaluator() would; rank 0 gathers
/// the results and aggregates them; every rank returns rank 0's metrics, which are the same for any number of ranks. An
/// error in `aggregate` becomes the same ArgumentError on every rank. evaluate_local() aggregates this rank's results
/// only.
[[nodiscard]] std::unique_ptr<Evaluator> create_results_evaluator(std::shared_ptr<Iterator> iterator,
                                                                  std::shared_ptr<torch::nn::Module> model,
                                                                  CalcResults calc_results, AggregateResults aggregate,
                                                                  std::shared_ptr<Communicator> comm);

/// Makes an evaluator for all ranks from `actual`, an evaluator for one rank. evaluate() is collective and returns, on
/// every rank, the mean over the samples of all ranks. Throws ArgumentError if an argument is null.
[[nodiscard]] std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                                     std::shared_ptr<Communicator> comm);

}  // namespace mn
