#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/train/evaluator.hpp>

namespace mn {
namespace {

/// Puts the model into evaluation mode, and back when it goes.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& model_;
  bool was_training_;
};

class BatchEvaluator : public Evaluator {
 public:
  BatchEvaluator(std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model,
                 EvaluateBatch evaluate_batch)
      : iterator_(std::move(iterator)), model_(std::move(model)), evaluate_batch_(std::move(evaluate_batch)) {}

  Summary evaluate_local() override {
    const at::NoGradGuard no_grad;
    const EvaluationMode mode(*model_);
    Summary report;
    while (const auto batch = iterator_->next()) {
      if (batch->samples > 0) evaluate_batch_(*batch, report);
    }
    return report;
  }

 private:
  std::shared_ptr<Iterator> iterator_;
  std::shared_ptr<torch::nn::Module> model_;
  EvaluateBatch evaluate_batch_;
};

class MultiNodeEvaluator : public Evaluator {
 public:
  MultiNodeEvaluator(std::unique_ptr<Evaluator> actual, std::shared_ptr<Communicator> comm)
      : actual_(std::move(actual)), comm_(std::move(comm)) {
    if (!actual_ || !comm_)
      throw ArgumentError("create_multi_node_evaluator was given no evaluator or no communicator");
  }
  Summary evaluate_local() override { return actual_->evaluate_local(); }
  Metrics evaluate() override { return actual_->evaluate_local().mean_over_ranks(*comm_); }

 private:
  std::unique_ptr<Evaluator> actual_;
  std::shared_ptr<Communicator> comm_;
};

}  // namespace

std::unique_ptr<Evaluator> create_evaluator(std::shared_ptr<Iterator> iterator,
                                            std::shared_ptr<torch::nn::Module> model, EvaluateBatch evaluate_batch) {
  return std::make_unique<BatchEvaluator>(std::move(iterator), std::move(model), std::move(evaluate_batch));
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> actual,
                                                       std::shared_ptr<Communicator> comm) {
  return std::make_unique<MultiNodeEvaluator>(std::move(actual), std::move(comm));
}

}  // namespace mn
