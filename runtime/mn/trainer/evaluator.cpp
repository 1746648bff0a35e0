#include <mn/trainer/evaluator.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/collective_use.hpp>
#include <mn/trainer/extension.hpp>

namespace mn {
namespace {

/// While an EvaluationMode lives, the model is in evaluation mode. Afterwards its modules have their earlier modes.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& model) : model_(model), modes_(training_modes(model)) {
    set_training(model_, false);
  }
  ~EvaluationMode() { set_training_modes(model_, modes_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& model_;
  std::vector<bool> modes_;
};

/// An evaluator that runs through the minibatches of an iterator.
class IteratingEvaluator : public Evaluator {
 public:
  IteratingEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model)
      : iterator_(std::move(iterator)), model_(std::move(model)) {}

 protected:
  /// Calls `work` for each of this rank's minibatches in an epoch, or for `most` minibatches if `most` is not 0.
  /// Collective if `comm` is not null: a rank without a minibatch takes part, too. If pauses_ throws, the iterator and
  /// the random numbers are as before.
  void for_each_batch(Communicator* comm, const std::function<void(const Batch&)>& work, std::int64_t most = 0) {
    const at::NoGradGuard no_grad;
    const EvaluationMode mode(*model_);
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
        // A rank with fewer samples than other ranks gets empty minibatches. This is an error if the model makes
        // collective calls, because the other ranks would wait; calls_ finds this error.
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

/// Collective: rank 0 calls `aggregate`, and every rank returns the result. If `aggregate`, the program's function,
/// throws, the exception must reach all ranks; otherwise the other ranks would wait forever in the broadcast.
Metrics aggregate_on_root(Communicator& comm, const std::function<Metrics()>& aggregate) {
  Metrics metrics;
  on_root<ArgumentError>(
      comm, [&] { metrics = aggregate(); }, true);
  return comm.bcast_obj(nlohmann::json(metrics)).get<Metrics>();
}

Summary summary_of(const Metrics& metrics) {
  Summary report;
  for (const auto& [name, value] : metrics) report.add(name, value);
  return report;
}

class GenericMultiNodeEvaluator final : public IteratingEvaluator {
 public:
  GenericMultiNodeEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model,
                            CalcLocal calc_local, Aggregate aggregate, std::shared_ptr<Communicator> comm)
      : IteratingEvaluator(std::move(iterator), std::move(model)),
        calc_local_(std::move(calc_local)),
        aggregate_(std::move(aggregate)),
        comm_(std::move(comm)) {
    if (!iterator_ || !model_ || !calc_local_ || !aggregate_ || !comm_) {
      throw ArgumentError(
          "a generic multi-node evaluator needs an iterator, a model, both functions and a communicator");
    }
  }

  Summary evaluate_local() override { return summary_of(aggregate_(local_values(nullptr))); }

  Metrics evaluate() override {
    // Every rank sends its values in one message. Only rank 0 holds the values of all ranks.
    const auto parts = comm_->gather_obj(nlohmann::json(local_values(comm_.get())));
    return aggregate_on_root(*comm_, [&] {
      std::vector<nlohmann::json> values;
      for (const auto& part : parts) values.insert(values.end(), part.begin(), part.end());
      return aggregate_(values);
    });
  }

 private:
  std::vector<nlohmann::json> local_values(Communicator* comm) {
    std::vector<nlohmann::json> values;
    for_each_batch(comm, [&](const Batch& batch) { values.push_back(calc_local_(batch)); });
    return values;
  }

  CalcLocal calc_local_;
  Aggregate aggregate_;
  std::shared_ptr<Communicator> comm_;
};

class ResultsEvaluator final : public IteratingEvaluator {
 public:
  ResultsEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model,
                   CalcResults calc_results, AggregateResults aggregate, std::shared_ptr<Communicator> comm)
      : IteratingEvaluator(std::move(iterator), std::move(model)),
        calc_results_(std::move(calc_results)),
        aggregate_(std::move(aggregate)),
        comm_(std::move(comm)) {
    if (!iterator_ || !model_ || !calc_results_ || !aggregate_ || !comm_) {
      throw ArgumentError("an evaluator of results needs an iterator, a model, both functions and a communicator");
    }
  }

  Summary evaluate_local() override { return summary_of(aggregate_(local_results(nullptr).take())); }

  Metrics evaluate() override {
    const Batch all = local_results(comm_.get()).gather(*comm_);
    return aggregate_on_root(*comm_, [&] { return aggregate_(all); });
  }

 private:
  SampleResults local_results(Communicator* comm) {
    SampleResults results;
    for_each_batch(comm, [&](const Batch& batch) { results.add(batch, calc_results_(batch)); });
    return results;
  }

  CalcResults calc_results_;
  AggregateResults aggregate_;
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
  return std::make_unique<GenericMultiNodeEvaluator>(std::move(iterator), std::move(model), std::move(calc_local),
                                                     std::move(aggregate), std::move(comm));
}

std::unique_ptr<Evaluator> create_results_evaluator(std::shared_ptr<Iterator> iterator,
                                                    std::shared_ptr<torch::nn::Module> model, CalcResults calc_results,
                                                    AggregateResults aggregate, std::shared_ptr<Communicator> comm) {
  return std::make_unique<ResultsEvaluator>(std::move(iterator), std::move(model), std::move(calc_results),
                                            std::move(aggregate), std::move(comm));
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                       std::shared_ptr<Communicator> comm) {
  return std::make_unique<MultiNodeEvaluator>(std::move(actual), std::move(comm));
}

}  // namespace mn
