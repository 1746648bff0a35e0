// Random trainings as a user may write them, by a Trainer or in a loop of one's own: each trains as one rank does that
// has all samples, and so does one that is stopped and resumed on another number of ranks.
//
// What one rank alone computes is the measure: all that a plan combines is exact but for rounding. Local steps are
// plain SGD with an average after each; top-k and PowerSGD send all that there is.
#include <gtest/gtest.h>

#include <mn/loader/tensor_dataset.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/recompute.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/weight_average.hpp>

#include "tests/train/random_training.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;
using Comm = std::shared_ptr<Communicator>;

constexpr std::int64_t kWidth = 34;  // top-k leaves gradients of less than 1,024 elements whole

struct Net : torch::nn::Module {
  Net(const Plan& plan, const Comm& comm) : plan_(plan) {
    first = register_module("first", torch::nn::Linear(torch::nn::LinearOptions(6, kWidth).bias(false)));
    block = register_module("block", torch::nn::Linear(kWidth, kWidth));
    last = register_module("last", torch::nn::Linear(kWidth, 3));
    if (plan.embedding) {
      const auto options = torch::nn::EmbeddingOptions(9, kWidth).sparse(plan.takes_sparse());
      words = register_module("words", torch::nn::Embedding(options));
    }
    if (plan.norm) norm = register_module("norm", MultiNodeBatchNorm(comm, torch::nn::BatchNormOptions(kWidth)));
    to(plan.dtype);
    if (plan.mixed) {
      scale = register_parameter("scale", torch::ones({3}, plan.dtype == at::kDouble ? at::kFloat : at::kDouble));
    }
    if (plan.frozen) first->weight.requires_grad_(false);
  }
  at::Tensor forward(const Batch& batch) {
    at::Tensor x = first(batch["x"]);
    if (!words.is_empty()) x = x + words(batch["word"]);
    if (!norm.is_empty()) x = norm(x);
    const auto part = [this](const at::Tensor& input) { return torch::tanh(block(input)); };
    for (int i = 0; i < (plan_.twice ? 2 : 1); ++i) x = plan_.recompute ? recompute_activations(part, x) : part(x);
    x = last(x);
    return scale.defined() ? x * scale.to(plan_.dtype) : x;
  }
  Plan plan_;
  torch::nn::Linear first{nullptr}, block{nullptr}, last{nullptr};
  torch::nn::Embedding words{nullptr};
  MultiNodeBatchNorm norm{nullptr};
  at::Tensor scale;
};

/// One training of a plan by the ranks of a communicator.
class Run {
 public:
  Run(const Plan& plan, Comm comm, std::filesystem::path out)
      : plan_(plan), comm_(std::move(comm)), out_(std::move(out)) {
    torch::manual_seed(3);
    net_ = std::make_shared<Net>(plan_, comm_);
    torch::manual_seed(4);
    train_ = loader(plan_.samples,
                    {.batchsize = kStep / comm_->size(), .shuffle = plan_.shuffle, .drop_last = plan_.drop_last});
    validation_ = loader(17, {.batchsize = 2});
    make_optimizers();
  }

  /// Parameters, their averages, and the loss on other samples.
  [[nodiscard]] at::Tensor train() {
    plan_.by_trainer ? by_trainer(0, false) : by_hand();
    return result_;
  }
  void train_until_stop() { by_trainer(plan_.stop, false); }
  [[nodiscard]] at::Tensor resume() {
    by_trainer(0, true);
    return result_;
  }

 private:
  static constexpr std::int64_t kStep = 12;

  [[nodiscard]] std::shared_ptr<TensorLoader> loader(std::int64_t count, const TensorLoaderOptions& options) const {
    const at::Tensor x = torch::randn({count, 6}, plan_.dtype), y = torch::randint(0, 3, {count});
    const at::Tensor tokens = torch::randint(0, 4, {count}), word = torch::randint(0, 9, {count});
    return std::make_shared<TensorLoader>(TensorDataset({x, y, tokens, word}, {"x", "y", "tokens", "word"}), comm_,
                                          options);
  }

  [[nodiscard]] std::unique_ptr<torch::optim::Optimizer> actual(const std::vector<at::Tensor>& parameters) const {
    const auto sgd = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01);
    const auto adam = torch::optim::AdamOptions(0.03).eps(1e-3);
    const auto adamw = torch::optim::AdamWOptions(0.03).eps(1e-3).weight_decay(0.1);
    switch (plan_.optimizer) {
      case 1:
        return std::make_unique<FusedSgd>(parameters, torch::optim::SGDOptions(sgd).nesterov(true));
      case 2:
        return std::make_unique<torch::optim::Adam>(parameters, adam);
      case 3:
        return std::make_unique<FusedAdam>(parameters, adam);
      case 4:
        return std::make_unique<FusedAdamW>(halves(parameters, adamw), adamw);
      case 5:
        return std::make_unique<Lamb>(parameters, adamw);
      case 6:
        return std::make_unique<Lars>(parameters, sgd, 0.1);
      case 7:
        return std::make_unique<torch::optim::RMSprop>(parameters, torch::optim::RMSpropOptions(0.01).eps(1e-2));
      case 8:
        return std::make_unique<torch::optim::Adagrad>(parameters, torch::optim::AdagradOptions(0.1).eps(1e-2));
      default:
        return std::make_unique<torch::optim::SGD>(parameters, 0.2);
    }
  }
  /// Two groups with other rates and decays.
  static std::vector<torch::optim::OptimizerParamGroup> halves(const std::vector<at::Tensor>& parameters,
                                                               const torch::optim::AdamWOptions& options) {
    const auto middle = parameters.begin() + static_cast<std::ptrdiff_t>(parameters.size() / 2);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector(parameters.begin(), middle), std::make_unique<torch::optim::AdamWOptions>(options));
    auto other = std::make_unique<torch::optim::AdamWOptions>(options);
    other->lr(0.01);
    other->weight_decay(0);
    groups.emplace_back(std::vector(middle, parameters.end()), std::move(other));
    return groups;
  }

  void make_optimizers() {
    const auto all = net_->parameters();
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(plan_.two_optimizers ? all.size() / 2 : all.size());
    for (const auto& part : {std::vector(all.begin(), middle), std::vector(middle, all.end())}) {
      if (part.empty()) continue;
      optimizers_.push_back(create_multi_node_optimizer(actual(part), comm_, plan_.options(comm_->size())));
      if (plan_.decay) optimizers_.back()->add_hook("decay", weight_decay(0.05));
    }
  }

  [[nodiscard]] Loss loss_of(const Batch& batch) {
    const at::Tensor scores = net_->forward(batch);
    if (plan_.loss == Plan::LossKind::kContrastive) return {contrast(scores, batch)};
    const at::Tensor each = torch::nn::functional::cross_entropy(
        scores, batch["y"], torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    if (plan_.loss == Plan::LossKind::kSamples) return {each.mean()};
    const at::Tensor tokens = batch["tokens"].to(plan_.dtype);
    return {(each * tokens).sum() / tokens.sum().clamp_min(1), tokens.sum().item<double>()};
  }
  /// Each sample's scores are to be near to its own inputs', among those of all ranks.
  [[nodiscard]] at::Tensor contrast(const at::Tensor& scores, const Batch& batch) const {
    const at::Tensor counts = all_gather(comm_, torch::full({1}, batch.samples));
    const auto begin = counts.narrow(0, 0, comm_->rank()).sum().item<std::int64_t>();
    const at::Tensor others = all_gather(comm_, torch::tanh(scores * 2 + batch["x"].narrow(1, 0, 3)));
    return torch::nn::functional::cross_entropy(scores.matmul(others.t()), torch::arange(begin, begin + batch.samples));
  }

  void by_trainer(std::int64_t iterations, bool resumes) {
    const auto optimizer = optimizers_.front();
    if (plan_.clip) optimizer->add_hook("clip", gradient_clipping(0.3));
    Trainer trainer(comm_, optimizer, train_, net_, [this](const Batch& batch, Summary&) { return loss_of(batch); },
                    {.epochs = plan_.epochs, .iterations = iterations, .accumulate = plan_.accumulate, .out = out_});
    if (plan_.schedule) {
      trainer.extend(std::make_unique<extensions::LearningRate>(warm_up(0.01, 3, cosine_schedule(0.1, 15, 0.01))));
    }
    if (plan_.when == Plan::When::kLocalSteps) {
      trainer.extend("average", {1, IntervalUnit::kIteration}, [](Trainer& t) { t.optimizer().synchronize(); });
    }
    auto* const average = plan_.average ? &trainer.extend(std::make_unique<extensions::WeightAverage>(0.9)) : nullptr;
    EXPECT_TRUE(!resumes || trainer.resume(out_ / "stopped"));
    EXPECT_EQ(trainer.run(), 0);
    if (iterations > 0) return trainer.save(out_ / "stopped");
    note_result();
    if (average == nullptr) return;
    const extensions::AveragedWeights averaged(*average);
    note_result();
  }

  void by_hand() {
    for (std::int64_t epoch = 0; epoch < plan_.epochs; ++epoch) {
      std::vector<Batch> step;
      while (auto batch = train_->next()) {
        step.push_back(*std::move(batch));
        if (static_cast<std::int64_t>(step.size()) < plan_.accumulate) continue;
        update(step);
        step.clear();
      }
      if (!step.empty()) update(step);
    }
    for (const auto& each : optimizers_) each->synchronize();
    note_result();
  }

  void update(const std::vector<Batch>& step) {
    for (const auto& each : optimizers_) each->zero_grad();
    double samples = 0;
    for (std::size_t i = 0; i < step.size(); ++i) {
      std::vector<std::shared_ptr<void>> quiet;
      for (const auto& each : optimizers_) {
        if (plan_.pauses && i + 1 < step.size()) quiet.push_back(each->no_sync());
      }
      const Loss loss = loss_of(step[i]);
      const double weight = loss.weight_in(step[i]);
      samples += weight;
      backward(loss.value, weight, i + 1 == step.size() ? samples : 0);
    }
    for (const auto& each : optimizers_) {
      if (sums() && samples > 0) each->scale_gradients(1 / samples);
      if (plan_.clip) clip_grad_norm(*each, 0.2, samples);
      each->step(samples);
    }
  }
  [[nodiscard]] bool sums() const { return plan_.sums && !plan_.calls_ranks(); }
  void backward(const at::Tensor& loss, double weight, double announced) {
    MultiNodeOptimizer& first = *optimizers_.front();
    if (sums()) return first.scale_loss(loss * weight).backward();
    const at::Tensor scaled = first.scale_loss(loss, weight, plan_.accumulate);
    for (const auto& each : optimizers_) {
      if (plan_.announces && announced > 0) each->announce_step(announced);
    }
    scaled.backward();
  }

  void note_result() {
    std::vector<at::Tensor> all = {result_};
    {
      const WholeParameters whole(*net_);
      for (const auto& parameter : net_->parameters()) {
        all.push_back(parameter.detach().clone().flatten().to(at::kDouble));
      }
    }
    const auto evaluate = [this](const Batch& batch, Summary& report) {
      const Loss loss = loss_of(batch);
      report.add("loss", loss.value, loss.weight_in(batch));
    };
    if (plan_.loss != Plan::LossKind::kContrastive) {  // which depends on the samples of a step
      const auto evaluator = create_multi_node_evaluator(create_evaluator(validation_, net_, evaluate), comm_);
      all.push_back(torch::full({1}, evaluator->evaluate().at("loss"), at::kDouble));
    }
    result_ = torch::cat(all);
  }

  Plan plan_;
  Comm comm_;
  std::filesystem::path out_;
  std::shared_ptr<Net> net_;
  std::shared_ptr<TensorLoader> train_, validation_;
  std::vector<std::shared_ptr<MultiNodeOptimizer>> optimizers_;
  at::Tensor result_ = torch::empty({0}, at::kDouble);
};

/// By the ranks of `first` until the stop, then by all. `first` is null on ranks that wait.
at::Tensor run(const Plan& plan, const Comm& first, const Comm& all, const std::filesystem::path& out) {
  if (plan.stop == 0) return Run(plan, all, out).train();
  if (first) Run(plan, first, out).train_until_stop();
  all->barrier();
  return Run(plan, all, out).resume();
}

void compare(unsigned seed, const std::vector<Comm>& groups) {
  const Plan plan(seed);
  SCOPED_TRACE(testing::Message() << "training " << seed << ": " << plan);
  const toy::TestFolder folder(world());
  const int first_ranks = std::min(plan.first_ranks, world()->size());
  const Comm& first = groups[static_cast<std::size_t>(first_ranks - 1)];
  const at::Tensor found = run(plan, world()->rank() < first_ranks ? first : nullptr, world(), folder.path() / "all");
  at::Tensor wanted = torch::zeros_like(found);
  if (world()->rank() == 0) wanted.copy_(run(plan, groups[0], groups[0], folder.path() / "alone"));
  std::vector<at::Tensor> measure = {wanted};
  world()->broadcast_data(measure);
  EXPECT_TRUE(found.isfinite().all().item<bool>());
  const double error = ((found - wanted).abs() / (1 + wanted.abs())).max().item<double>();
  EXPECT_LT(error, plan.tolerance());
}

/// MN_RANDOM_TRAININGS of them, from the seed MN_FIRST_TRAINING on.
TEST(RandomTrainings, EqualThoseOfOneRank) {
  const auto number = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return static_cast<unsigned>(text == nullptr ? otherwise : std::atoi(text));
  };
  std::vector<Comm> groups;  // [ranks - 1] the first ranks
  for (int ranks = 1; ranks <= world()->size(); ++ranks) {
    groups.emplace_back(world()->split(world()->rank() < ranks ? 0 : 1, world()->rank()));
  }
  const unsigned first = number("MN_FIRST_TRAINING", 1), count = number("MN_RANDOM_TRAININGS", 20);
  if (count == 1 && world()->rank() == 0) std::cerr << Plan(first) << std::endl;  // it may hang
  for (unsigned seed = first; seed < first + count; ++seed) {
    try {
      compare(seed, groups);
    } catch (const std::exception&) {
      std::cerr << "training " << seed << ": " << Plan(seed) << std::endl;
      throw;
    }
  }
}

}  // namespace
}  // namespace mn
