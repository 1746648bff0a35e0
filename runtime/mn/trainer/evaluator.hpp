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

/// Adds the metrics of one minibatch to `report`. Each metric is a mean, and its weight is the number of samples or
/// tokens in the mean.
using EvaluateBatch = std::function<void(const Batch& batch, Summary& report)>;

/// Evaluates a model on one rank. create_evaluator() makes an evaluator from a function that evaluates one minibatch.
/// If such a function is not enough, derive a class from Evaluator, and pass an object of the class to
/// create_multi_node_evaluator(). The extension Validation runs an evaluator during training.
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
  /// Evaluates this rank's samples. The result holds each metric as a weighted sum, so that ranks can combine their
  /// results.
  [[nodiscard]] virtual Summary evaluate_local() = 0;
  /// Collective. create_multi_node_evaluator() calls this function in place of evaluate_local(). A class that makes
  /// collective calls may override the function, and use `comm` to agree with all ranks before these calls.
  [[nodiscard]] virtual Summary evaluate_with(Communicator& /*comm*/) { return evaluate_local(); }
  /// Returns the metrics of this rank's samples. A multi-node evaluator overrides this function. The call is then
  /// collective, and returns the metrics of all ranks' samples.
  [[nodiscard]] virtual Metrics evaluate() { return evaluate_local().mean(); }
  /// From now on, each evaluation calls `pauses` (see Trainer::pauses()): with false before each minibatch, and with
  /// true after the last minibatch. If `pauses` throws, the evaluation has no effect. An evaluator that contains a
  /// second evaluator must pass `pauses` on to it.
  virtual void set_pauses(std::function<void(bool is_done)> pauses) { pauses_ = std::move(pauses); }

 protected:
  std::function<void(bool is_done)> pauses_;  ///< may be empty
};

/// Makes an evaluator that evaluates one epoch of `iterator`. The model is in evaluation mode and computes no
/// gradients; afterwards each module gets its earlier mode again. Minibatches without samples are skipped. If
/// `evaluate_batch` makes collective calls, a minibatch without samples is an error that names the rank. If
/// `most_batches` is not 0, the evaluation is a trial: it stops after this number of minibatches, and the iterator
/// stays at this place.
[[nodiscard]] std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                                          std::shared_ptr<torch::nn::Module> model,
                                                          EvaluateBatch evaluate_batch, std::int64_t most_batches = 0);

/// Returns the values of one minibatch that Aggregate needs, for instance scores and targets, or a maximum.
using CalcLocal = std::function<nlohmann::json(const Batch& batch)>;
/// Computes metrics from the values that CalcLocal has returned for all minibatches.
using Aggregate = std::function<Metrics(const std::vector<nlohmann::json>& values)>;

/// Makes an evaluator for metrics that are no averages (ChainerMN's GenericMultiNodeEvaluator). evaluate() is
/// collective. Each rank runs `calc_local` on the minibatches of an epoch, as create_evaluator() would. Rank 0 gathers
/// the values in rank order, and computes the metrics by `aggregate`. Every rank returns rank 0's metrics. If
/// `aggregate` throws, every rank throws the same ArgumentError. evaluate_local() aggregates only this rank's values.
/// Rank 0's memory must hold the values of all ranks.
[[nodiscard]] std::unique_ptr<Evaluator> create_generic_multi_node_evaluator(std::shared_ptr<Iterator> iterator,
                                                                             std::shared_ptr<torch::nn::Module> model,
                                                                             CalcLocal calc_local, Aggregate aggregate,
                                                                             std::shared_ptr<Communicator> comm);

/// Returns, for one minibatch, the results of each sample, in the form that SampleResults::add() takes.
using CalcResults = std::function<std::vector<BatchField>(const Batch& batch)>;
/// Computes metrics from the results of all samples. The results are in the order of the dataset
/// (SampleResults::gather()).
using AggregateResults = std::function<Metrics(const Batch& all)>;

/// Makes an evaluator for metrics that need the results of single samples, such as average precision or a ranking.
/// evaluate() is collective. Each rank runs `calc_results` on the minibatches of an epoch, as create_evaluator() would.
/// Rank 0 gathers the results, and computes the metrics by `aggregate`. Every rank returns rank 0's metrics. The
/// metrics do not depend on the number of ranks. If `aggregate` throws, every rank throws the same ArgumentError.
/// evaluate_local() aggregates only this rank's results.
[[nodiscard]] std::unique_ptr<Evaluator> create_results_evaluator(std::shared_ptr<Iterator> iterator,
                                                                  std::shared_ptr<torch::nn::Module> model,
                                                                  CalcResults calc_results, AggregateResults aggregate,
                                                                  std::shared_ptr<Communicator> comm);

/// Makes an evaluator for all ranks from `actual`, an evaluator for one rank. evaluate() is collective and returns, on
/// every rank, the mean over the samples of all ranks. Throws ArgumentError if an argument is null.
[[nodiscard]] std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                                     std::shared_ptr<Communicator> comm);

}  // namespace mn
