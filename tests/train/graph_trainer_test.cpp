// A Trainer that launches graphs trains, logs and resumes as one that does not.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

#include "tests/train/device_comm.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using test::are_alike;
using test::comm;
using torch::optim::AdamOptions;

/// toy::ToyIterator's minibatches on the device.
class DeviceIterator final : public Iterator {
 public:
  explicit DeviceIterator(std::int64_t size) : actual_(size, 4, *comm()) {}
  std::optional<Batch> next() override {
    auto batch = actual_.next();
    if (!batch) return batch;
    batch->data = batch->data.to(c10::Device(comm()->device()));
    batch->target = batch->target.to(c10::Device(comm()->device()));
    return batch;
  }
  std::int64_t epoch() const override { return actual_.epoch(); }
  double epoch_detail() const override { return actual_.epoch_detail(); }
  std::int64_t steps_per_epoch() const override { return actual_.steps_per_epoch(); }
  nlohmann::json state() const override { return actual_.state(); }
  void load_state(const nlohmann::json& state) override { actual_.load_state(state); }
  double data_wait_s() const override { return 0; }

 private:
  toy::ToyIterator actual_;
};

struct Trained {
  at::Tensor weights;
  nlohmann::json log;
  nlohmann::json state;
  int loss_calls = 0;  // a launched graph makes none
};

/// The last minibatches of an epoch are smaller.
Trained train(CudaGraph graph, std::int64_t epochs, const std::filesystem::path& out, bool resume = false) {
  torch::manual_seed(1);
  const auto net = std::make_shared<toy::ToyNet>(false);
  net->to(c10::Device(comm()->device()));
  const std::shared_ptr<MultiNodeOptimizer> optimizer = create_multi_node_optimizer(
      std::make_unique<FusedAdam>(net->parameters(), AdamOptions(0.01)), comm(), {.overlap = false});
  int loss_calls = 0;
  Trainer trainer(comm(), optimizer, std::make_shared<DeviceIterator>(50 * comm()->size() + 1), net,
                  [net, &loss_calls](const Batch& batch, Summary& report) {
                    ++loss_calls;
                    const at::Tensor scores = net->forward(batch.data);
                    report.add("accuracy", scores.argmax(1).eq(batch.target).to(torch::kFloat).mean(), batch.samples);
                    return torch::nn::functional::cross_entropy(scores, batch.target);
                  },
                  {.epochs = epochs, .cuda_graph = graph, .out = out});
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>());
  trainer.extend(std::make_unique<extensions::FailOnNonNumber>(log));
  trainer.extend(std::make_unique<extensions::LearningRate>(cosine_schedule(0.01, 40, 0.001)));
  trainer.extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(1, "epoch")});
  if (resume) trainer.resume("auto");
  EXPECT_EQ(trainer.run(), 0);
  Trained result{torch::cat({net->first->weight.flatten(), net->second->weight.flatten()}).detach().cpu(),
                 log.entries(), optimizer->state(), loss_calls};
  for (auto& entry : result.log) {
    for (const char* time : {"elapsed_time", "images_per_second"}) entry.erase(time);
  }
  return result;
}

TEST(GraphTrainer, TrainsAsWithout) {
  const toy::TestFolder folder(comm());
  const Trained without = train(CudaGraph::kOff, 3, folder.path() / "without");
  const Trained with = train(CudaGraph::kOn, 3, folder.path() / "with");
  EXPECT_TRUE(are_alike(with.weights, without.weights));
  if (comm()->size() <= 2) {
    EXPECT_EQ(with.log, without.log);
  }
}

TEST(GraphTrainer, RecordsWhereItCan) {
  const toy::TestFolder folder(comm());
  const Trained without = train(CudaGraph::kOff, 2, folder.path() / "without");
  const Trained with = train(CudaGraph::kAuto, 2, folder.path() / "with");
  EXPECT_TRUE(are_alike(with.weights, without.weights));
  EXPECT_LE(with.loss_calls, without.loss_calls / 2);
}

/// Steps that can be no graph train as usual with kAuto, and throw with kOn.
TEST(GraphTrainer, TrainsWhereNoGraphCanBe) {
  const toy::TestFolder folder(comm());
  const auto net = std::make_shared<toy::ToyNet>(false);
  net->to(c10::Device(comm()->device()));
  const auto iterations_with = [&](CudaGraph graph) {
    const std::shared_ptr<MultiNodeOptimizer> optimizer = create_multi_node_optimizer(
        std::make_unique<FusedAdam>(net->parameters(), AdamOptions(0.01)), comm(), {.overlap = false});
    Trainer trainer(comm(), optimizer, std::make_shared<DeviceIterator>(8 * comm()->size()), net,
                    [net](const Batch& batch, Summary&) {
                      return torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
                    },
                    {.iterations = 8, .accumulate = 2, .cuda_graph = graph, .out = folder.path() / "out"});
    static_cast<void>(trainer.run());
    return trainer.iteration();
  };
  EXPECT_EQ(iterations_with(CudaGraph::kAuto), 8);
  EXPECT_THROW(static_cast<void>(iterations_with(CudaGraph::kOn)), UsageError);
}

TEST(GraphTrainer, ResumesAsWithout) {
  const toy::TestFolder folder(comm());
  const Trained without = train(CudaGraph::kOff, 3, folder.path() / "without");
  static_cast<void>(train(CudaGraph::kOn, 2, folder.path() / "with"));
  const Trained resumed = train(CudaGraph::kOn, 3, folder.path() / "with", true);
  EXPECT_TRUE(are_alike(resumed.weights, without.weights));
}

}  // namespace
}  // namespace mn
