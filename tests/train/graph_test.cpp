// A step as one graph of the device's work gives what the same steps give without, bit for bit. On GPUs, which ranks
// may share, and on the test device.
#include <functional>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/device_comm.hpp"
#include "tests/train/device_nets.hpp"

namespace mn {
namespace {

using test::are_alike;
using test::comm;
using test::make;
using test::MakeOptimizer;
using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

class Environment : public testing::Environment {
 public:
  void TearDown() override { comm().reset(); }
};
[[maybe_unused]] const auto* const environment = testing::AddGlobalTestEnvironment(new Environment);

struct Way {
  std::string name;
  MakeOptimizer optimizer = make<FusedAdam>(AdamOptions(0.01));
  OptimizerOptions options = {.overlap = false};
  int steps = 24;
  double clip = 0;
  int overflow = -1;    // the step in which the loss is infinite
  bool hooks = false;   // one comes before step 15, and goes before step 20
  bool moves = false;   // the network's memory is another from step 15 on
  bool narrow = false;  // weights in bfloat16, with float32 masters
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

/// Steps with rates that change, two of them with fewer samples on rank 0, and settings that change once.
class Training {
 public:
  explicit Training(const Way& way, bool graph) : way_(way), device_(comm()->device()) {
    net_ = std::make_shared<test::Net>(comm());
    net_->to(device_);
    if (way.narrow) narrow_weights(*net_, at::kBFloat16);
    auto actual = way.optimizer(net_->parameters());
    if (way.narrow) dynamic_cast<MasterWeights&>(*actual).keep_masters();
    optimizer_ = create_multi_node_optimizer(std::move(actual), comm(), way.options);
    if (way.clip > 0) optimizer_->add_hook("clip", gradient_clipping(way.clip));
    if (graph) graph_ = std::make_unique<GraphedStep>(optimizer_);
    torch::manual_seed(comm()->rank());
  }
  /// Losses, parameters and buffers, on the CPU.
  at::Tensor result() {
    for (; step_ < way_.steps; ++step_) step();
    optimizer_->synchronize();
    std::vector<at::Tensor> all = losses_;
    for (const auto& parameter : net_->parameters()) all.push_back(parameter.detach());
    for (const auto& buffer : net_->buffers()) all.push_back(buffer);
    for (at::Tensor& each : all) each = each.flatten().to(torch::kFloat).cpu();
    return torch::cat(all);
  }
  int launches() const { return launches_; }
  std::uint64_t bytes() const { return optimizer_->bytes_sent(); }

 private:
  void step() {
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(0.01 / (1 + step_ % 5));
    change();
    const std::int64_t samples = (step_ == 11 || step_ == 12) && comm()->rank() == 0 ? 3 : 4;
    at::Tensor x = torch::sin(torch::arange(samples * 36).reshape({samples, 1, 6, 6}) * (step_ + 1) + comm()->rank());
    if (step_ == way_.overflow) x[0] = std::numeric_limits<float>::infinity();
    const std::vector<at::Tensor> inputs = {x.to(device_), torch::arange(samples).add(step_).remainder(3).to(device_)};
    const auto work = [&](const std::vector<at::Tensor>& given) {
      optimizer_->zero_grad();
      at::Tensor scores = forward(given[0]);
      if (device_.is_cuda()) scores = torch::dropout(scores, 0.2, true);  // the test device's numbers do not go on
      const at::Tensor loss = torch::nn::functional::cross_entropy(scores, given[1]);
      const at::Tensor weighted = optimizer_->scale_loss(loss, static_cast<double>(samples));
      optimizer_->announce_step(static_cast<double>(samples));
      weighted.backward();
      optimizer_->step(static_cast<double>(samples));
      return std::vector{loss.detach()};
    };
    losses_.push_back(graph_ ? graph_->run(inputs, {static_cast<double>(samples)}, work)[0] : work(inputs)[0]);
    launches_ += graph_ && graph_->has_launched() ? 1 : 0;
  }

  at::Tensor forward(const at::Tensor& x) {
    const AutocastScope autocast(way_.narrow ? std::optional(at::kBFloat16) : std::nullopt, comm()->device());
    return net_->forward(x, true).to(at::kFloat);
  }

  void change() {
    if (way_.hooks && step_ == 15) optimizer_->add_hook("clip", gradient_clipping(0.01));
    if (way_.hooks && step_ == 20) optimizer_->remove_hook("clip");
    if (way_.moves && step_ == 15) {
      for (const at::Tensor& parameter : net_->parameters()) parameter.set_data(parameter.detach().clone());
    }
  }

  const Way& way_;
  c10::Device device_;
  std::shared_ptr<test::Net> net_;
  std::shared_ptr<MultiNodeOptimizer> optimizer_;
  std::unique_ptr<GraphedStep> graph_;
  std::vector<at::Tensor> losses_;
  int step_ = 0;
  int launches_ = 0;
};

/// A way to tell whether forward, backward or an update was another: the first values are the losses of the steps.
std::string difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor where = a.ne(b).nonzero().flatten();
  std::ostringstream text;
  text << where.numel() << " of " << a.numel() << " values differ, from number " << where[0].item()
       << " on, by at most " << a.sub(b).abs().max().item<double>();
  return text.str();
}

class GraphWays : public testing::TestWithParam<Way> {};

TEST_P(GraphWays, GiveTheSameBits) {
  Training without(GetParam(), false);
  const at::Tensor expected = without.result();
  Training with(GetParam(), true);
  const at::Tensor result = with.result();
  EXPECT_TRUE(are_alike(result, expected)) << difference(result, expected);
  EXPECT_GE(with.launches(), 12);
  EXPECT_LE(with.launches(), GetParam().steps - 6);
  if (!GetParam().options.overlap.value_or(true)) {
    EXPECT_EQ(with.bytes(), without.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GraphWays,
    testing::Values(
        Way{.name = "adam"}, Way{.name = "adamw", .optimizer = make<FusedAdamW>(AdamWOptions(0.01).weight_decay(0.1))},
        Way{.name = "sgd", .optimizer = make<FusedSgd>(SGDOptions(0.01).momentum(0.9).weight_decay(1e-3))},
        Way{.name = "clip", .clip = 0.1}, Way{.name = "narrow", .clip = 1, .narrow = true},
        Way{.name = "hooks", .optimizer = make<FusedSgd>(SGDOptions(0.1)), .steps = 28, .hooks = true},
        Way{.name = "moves", .moves = true},
        Way{.name = "buckets", .options = {.overlap = true, .deterministic = true, .bucket_bytes = 64}},
        Way{.name = "tuned", .options = {}, .steps = 48},
        Way{.name = "fp16", .options = {.overlap = false, .grad_scaler = GradScalerOptions{.init_scale = 1024}}},
        Way{.name = "overflow",
            .options = {.overlap = false, .grad_scaler = GradScalerOptions{.init_scale = 1024, .growth_interval = 3}},
            .overflow = 17}),
    [](const auto& test) { return test.param.name; });

TEST(GraphedSteps, SayWhatForbidsThem) {
  const at::Tensor weight = torch::ones({3}, c10::Device(comm()->device())).requires_grad_();
  const auto graph_of = [&](const MakeOptimizer& optimizer, const OptimizerOptions& options) {
    return [&comm = comm(), weight, optimizer, options] {
      GraphedStep(create_multi_node_optimizer(optimizer({weight}), comm, options));
    };
  };
  const auto fused = make<FusedSgd>(SGDOptions(0.1));
  EXPECT_THAT(graph_of(make<torch::optim::SGD>(SGDOptions(0.1)), {}),
              ThrowsMessage<UsageError>(HasSubstr("FusedAdam")));
  EXPECT_THAT(graph_of(make<Lars>(SGDOptions(0.1)), {}), ThrowsMessage<UsageError>(HasSubstr("FusedAdam")));
  EXPECT_THAT(graph_of(fused, {.double_buffering = true}), ThrowsMessage<UsageError>(HasSubstr("double buffering")));
  EXPECT_THAT(graph_of(fused, {.local_steps = 2}), ThrowsMessage<UsageError>(HasSubstr("local steps")));
  EXPECT_THAT(graph_of(fused, {.compression = {.kind = Compression::kBf16}}),
              ThrowsMessage<UsageError>(HasSubstr("compression")));
  const auto on_cpu = [] {
    const at::Tensor parameter = torch::ones({3}).requires_grad_();
    const auto cpu = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
    GraphedStep(create_multi_node_optimizer(make<FusedSgd>(SGDOptions(0.1))({parameter}), cpu));
  };
  EXPECT_THAT(on_cpu, ThrowsMessage<UsageError>(HasSubstr("CPUs")));
}

/// Ranks without alike steps in the beginning no longer exchange a message in each step.
TEST(GraphedSteps, GiveUpIfTheyAreOptional) {
  const at::Tensor weight = torch::ones({4}, c10::Device(comm()->device())).requires_grad_();
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(make<FusedSgd>(SGDOptions(0.1))({weight}), comm(), {.overlap = false});
  for (const bool is_optional : {false, true}) {
    GraphedStep graph(optimizer, is_optional);
    for (int k = 0; k < 212; ++k) {
      const std::int64_t size = k < 200 ? 1 + k % 4 : 4;
      static_cast<void>(graph.run({weight.detach().slice(0, 0, size)}, {}, [&](const std::vector<at::Tensor>& given) {
        optimizer->zero_grad();
        (weight.slice(0, 0, given[0].size(0)) * given[0]).sum().backward();
        optimizer->step();
        return std::vector<at::Tensor>();
      }));
    }
    EXPECT_EQ(graph.has_launched(), !is_optional);
  }
}

/// Steps that read a value, or draw random numbers on the host, are an error.
class GraphErrors : public testing::TestWithParam<int> {};

TEST_P(GraphErrors, AreToldInALine_on_1_rank) {
  const at::Tensor weight = torch::ones({3}, c10::Device(comm()->device())).requires_grad_();
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(make<FusedSgd>(SGDOptions(0.1))({weight}), comm());
  const auto steps = [&](const std::function<double(const at::Tensor&)>& number) {
    GraphedStep graph(optimizer);
    for (int k = 0; k < 8; ++k) {
      static_cast<void>(graph.run({weight.detach()}, {}, [&](const std::vector<at::Tensor>& given) {
        optimizer->zero_grad();
        const at::Tensor loss = (weight * given[0]).sum() * number(given[0]);
        loss.backward();
        optimizer->step();
        return std::vector{loss.detach()};
      }));
    }
  };
  EXPECT_THAT([&] { steps([](const at::Tensor&) { return torch::rand({1}).item<double>(); }); },
              ThrowsMessage<UsageError>(HasSubstr("random numbers on the host")));
  EXPECT_THAT([&] { steps([](const at::Tensor& given) { return given.sum().item<double>(); }); },
              ThrowsMessage<UsageError>(HasSubstr("can't hold this step")));
}

TEST_P(GraphErrors, EndTheRecording_on_1_rank) {
  const at::Tensor weight = torch::ones({3}, c10::Device(comm()->device())).requires_grad_();
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(make<FusedSgd>(SGDOptions(0.1))({weight}), comm());
  GraphedStep graph(optimizer);
  const auto step = [&](const std::vector<at::Tensor>& given) {
    optimizer->zero_grad();
    (weight * given[0]).sum().backward();
    if (graph.is_recording()) throw std::runtime_error("of the program");
    optimizer->step();
    return std::vector<at::Tensor>();
  };
  EXPECT_THAT(
      [&] {
        for (int k = 0; k < 8; ++k) static_cast<void>(graph.run({weight.detach()}, {}, step));
      },
      ThrowsMessage<std::runtime_error>("of the program"));
  EXPECT_FALSE(graph.is_recording());
}

// Last, as suites with parameters run: a capture that failed may leave a GPU's libraries in disorder.
INSTANTIATE_TEST_SUITE_P(All, GraphErrors, testing::Values(0));

}  // namespace
}  // namespace mn
