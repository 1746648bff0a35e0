#include <mn/trainer/evaluator.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>

#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/collective_use.hpp>
#include <mn/trainer/extension.hpp>

namespace mn {
namespace {

/// An evaluator that runs through the minibatches of an iterator.
class IteratingEvaluator : public Evaluator {
 public:
  IteratingEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model)
      : iterator_(std::move(iterator)), model_(std::move(model)) {}

 protected:
  /// Calls `work` for each of this rank's minibatches in an epoch. If `most` is not 0, stops after `most` minibatches.
  /// If `comm` is not null, the call is collective, and a rank without a minibatch takes part, too. If pauses_ throws,
  /// the iterator and the random numbers get the states that they had before the call.
  void for_each_batch(Communicator* comm, const std::function<void(const Batch&)>& work, std::int64_t most = 0) {
    const at::NoGradGuard no_grad;
    const auto restore_modes =
        c10::make_scope_exit([this, modes = training_modes(*model_)] { set_training_modes(*model_, modes); });
    set_training(*model_, false);
    const ShardPass pass(*model_);
    const ActivityScope activity("validation");
    const std::int64_t epoch = iterator_->epoch() + 1;
    const Device device = comm != nullptr ? comm->device() : Device{};
    const nlohmann::json begin = pauses_ ? iterator_->state() : nlohmann::json();
    const NamedTensors random = pauses_ ? random_state(device) : NamedTensors();
    std::int64_t done = 0;
    std::optional<Batch> batch;
    try {
      do {
        if (pauses_) pauses_(false);
        batch = iterator_->next();
        if (!batch && done > 0) break;
        // A rank with fewer samples gets empty minibatches. calls_ throws an error if the model makes collective calls,
        // because a rank with an empty minibatch does not call the model.
        calls_.run(batch ? batch->samples : 0, comm, "evaluation", epoch, [&] { return work(*batch), 0; });
        note_progress();
      } while (batch && ++done != most);
      if (pauses_) pauses_(true);
    } catch (const Interrupted&) {
      iterator_->load_state(begin);
      set_random_state(random, device);
      throw;
    }
  }

  std::shared_ptr<Iterator> iterator_;
  std::shared_ptr<torch::nn::Module> model_;

 private:
  CollectiveUse calls_;  // finds out whether `work` makes collective calls
};

class BatchEvaluator final : public IteratingEvaluator {
 public:
  BatchEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model,
                 EvaluateBatch evaluate_batch, std::int64_t most_batches)
      : IteratingEvaluator(std::move(iterator), std::move(model)),
        evaluate_batch_(std::move(evaluate_batch)),
        most_batches_(most_batches) {}

  Summary evaluate_local() override { return evaluate_on(nullptr); }
  Summary evaluate_with(Communicator& comm) override { return evaluate_on(&comm); }

 private:
  Summary evaluate_on(Communicator* comm) {
    Summary report;
    for_each_batch(
        comm, [&](const Batch& batch) { evaluate_batch_(batch, report); }, most_batches_);
    return report;
  }

  EvaluateBatch evaluate_batch_;
  std::int64_t most_batches_;
};

class MultiNodeEvaluator final : public Evaluator {
 public:
  MultiNodeEvaluator(std::unique_ptr<Evaluator> actual, std::shared_ptr<Communicator> comm)
      : actual_(std::move(actual)), comm_(std::move(comm)) {
    if (!actual_ || !comm_) throw ArgumentError("create_multi_node_evaluator needs an evaluator and a communicator");
  }
  Summary evaluate_local() override { return actual_->evaluate_local(); }
  Metrics evaluate() override { return actual_->evaluate_with(*comm_).mean_over_ranks(*comm_); }
  void set_pauses(std::function<void(bool)> pauses) override { actual_->set_pauses(std::move(pauses)); }

 private:
  std::unique_ptr<Evaluator> actual_;
  std::shared_ptr<Communicator> comm_;
};

/// Collects the values that a function has returned for each minibatch. SampleResults does so for single samples.
class MinibatchValues {
 public:
  void add(const Batch& /*batch*/, nlohmann::json value) { values_.push_back(std::move(value)); }
  [[nodiscard]] std::vector<nlohmann::json> take() { return std::exchange(values_, {}); }
  /// Collective: every rank sends its values to rank 0 in one message. Returns the values of all ranks on rank 0, in
  /// rank order. Returns an empty list on all other ranks.
  [[nodiscard]] std::vector<nlohmann::json> gather(Communicator& comm) const {
    std::vector<nlohmann::json> all;
    for (const auto& theirs : comm.gather_obj(nlohmann::json(values_))) {
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    return all;
  }

 private:
  std::vector<nlohmann::json> values_;
};

/// Collects something from each minibatch. `Collected` is MinibatchValues or SampleResults. Rank 0 aggregates what all
/// ranks have collected.
template <class Collected, class CalcBatch, class AggregateAll>
class CollectingEvaluator final : public IteratingEvaluator {
 public:
  /// `what` names the evaluator in the error that is thrown if an argument is null.
  CollectingEvaluator(const char* what, std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model,
                      CalcBatch calc_batch, AggregateAll aggregate, std::shared_ptr<Communicator> comm)
      : IteratingEvaluator(std::move(iterator), std::move(model)),
        calc_batch_(std::move(calc_batch)),
        aggregate_(std::move(aggregate)),
        comm_(std::move(comm)) {
    if (iterator_ && model_ && calc_batch_ && aggregate_ && comm_) return;
    throw ArgumentError(std::string(what) + " needs an iterator, a model, both functions and a communicator");
  }

  Summary evaluate_local() override {
    Summary report;
    for (const auto& [name, value] : aggregate_(collect(nullptr).take())) report.add(name, value);
    return report;
  }

  Metrics evaluate() override {
    const auto all = collect(comm_.get()).gather(*comm_);
    Metrics metrics;
    // If aggregate_() throws on rank 0, on_root() throws on all ranks, because all ranks except rank 0 would otherwise
    // wait in the broadcast forever.
    on_root<ArgumentError>(
        *comm_, [&] { metrics = aggregate_(all); }, true);
    return comm_->bcast_obj(nlohmann::json(metrics)).template get<Metrics>();
  }

 private:
  Collected collect(Communicator* comm) {
    Collected collected;
    for_each_batch(comm, [&](const Batch& batch) { collected.add(batch, calc_batch_(batch)); });
    return collected;
  }

  CalcBatch calc_batch_;
  AggregateAll aggregate_;
  std::shared_ptr<Communicator> comm_;
};

}  // namespace

std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                            std::shared_ptr<torch::nn::Module> model, EvaluateBatch evaluate_batch,
                                            std::int64_t most_batches) {
  return std::make_unique<BatchEvaluator>(std::move(iterator), std::move(model), std::move(evaluate_batch),
                                          most_batches);
}

std::unique_ptr<Evaluator> create_generic_multi_node_evaluator(std::shared_ptr<Iterator> iterator,
                                                               std::shared_ptr<torch::nn::Module> model,
                                                               CalcLocal calc_local, Aggregate aggregate,
                                                               std::shared_ptr<Communicator> comm) {
  return std::make_unique<CollectingEvaluator<MinibatchValues, CalcLocal, Aggregate>>(
      "a generic multi-node evaluator", std::move(iterator), std::move(model), std::move(calc_local),
      std::move(aggregate), std::move(comm));
}

std::unique_ptr<Evaluator> create_results_evaluator(std::shared_ptr<Iterator> iterator,
                                                    std::shared_ptr<torch::nn::Module> model, CalcResults calc_results,
                                                    AggregateResults aggregate, std::shared_ptr<Communicator> comm) {
  return std::make_unique<CollectingEvaluator<SampleResults, CalcResults, AggregateResults>>(
      "an evaluator of results", std::move(iterator), std::move(model), std::move(calc_results), std::move(aggregate),
      std::move(comm));
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                       std::shared_ptr<Communicator> comm) {
  return std::make_unique<MultiNodeEvaluator>(std::move(actual), std::move(comm));
}

}  // namespace mn
