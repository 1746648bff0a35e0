#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/nn/recompute.hpp>
#include <mn/tensor/autocast.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::bytes_of;
using toy::world;

/// Four layers with dropout, of which the middle two are one segment.
struct DeepNet : torch::nn::Module {
  DeepNet() {
    torch::manual_seed(3);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(6, 6));
    register_module("layers", layers);
  }
  at::Tensor middle(const at::Tensor& x) {
    const auto h = torch::tanh(layers[1]->as<torch::nn::Linear>()->forward(x));
    return torch::dropout(torch::relu(layers[2]->as<torch::nn::Linear>()->forward(h)), 0.3, is_training());
  }
  at::Tensor forward(const at::Tensor& x, bool recompute) {
    const auto h = layers[0]->as<torch::nn::Linear>()->forward(x);
    const auto middle_of = [this](const at::Tensor& input) { return middle(input); };
    return layers[3]->as<torch::nn::Linear>()->forward(recompute ? recompute_activations(middle_of, h) : middle(h));
  }
  torch::nn::ModuleList layers;
};

/// Parameters after some steps, and a random number drawn afterwards.
std::string train(bool recompute, bool overlap, std::optional<at::ScalarType> autocast) {
  const auto model = std::make_shared<DeepNet>();
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1)), world(),
      {.overlap = overlap, .deterministic = true, .bucket_bytes = 16});
  torch::manual_seed(40 + world()->rank());
  for (int i = 0; i < 4; ++i) {
    const auto x = torch::randn({5, 6});
    optimizer->zero_grad();
    optimizer->announce_step(5);
    const AutocastScope scope(autocast, Device());
    model->forward(x, recompute).square().mean().backward();
    optimizer->step(5);
  }
  return bytes_of(model->parameters()) + bytes_of({torch::randn({3})});
}

TEST(Recompute, GradientsAreTheSameBits) {
  for (const bool overlap : {false, true}) {
    for (const auto type : {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
      EXPECT_EQ(train(true, overlap, type), train(false, overlap, type)) << overlap << type.has_value();
    }
  }
}

/// ALBERT: one block for all layers.
struct SharedBlockNet : torch::nn::Module {
  SharedBlockNet() {
    torch::manual_seed(3);
    block = register_module("block", torch::nn::Linear(6, 6));
    head = register_module("head", torch::nn::Linear(6, 6));
  }
  at::Tensor forward(at::Tensor x, bool recompute) {
    const auto layer = [this](const at::Tensor& input) { return torch::tanh(block(input)); };
    for (int i = 0; i < 3; ++i) x = recompute ? recompute_activations(layer, x) : layer(x);
    return torch::tanh(block(head(x)));  // and once outside of a segment
  }
  torch::nn::Linear block{nullptr}, head{nullptr};
};

/// Parameters after a training, and the bytes of its last steps.
std::pair<at::Tensor, std::uint64_t> train_shared_block(bool recompute, bool overlap) {
  static const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  const toy::TestFolder folder(comm);
  const auto model = std::make_shared<SharedBlockNet>();
  const std::shared_ptr<MultiNodeOptimizer> optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1)), comm,
      {.overlap = overlap, .deterministic = true, .bucket_bytes = 16});
  const auto iterator = std::make_shared<toy::ToyIterator>(24 * comm->size(), 4, *comm);
  const auto loss = [&](const Batch& batch, Summary&) { return model->forward(batch.data, recompute).square().mean(); };
  Trainer trainer(comm, optimizer, iterator, model, loss, {.epochs = 2, .out = folder.path()});
  std::uint64_t before = 0;
  trainer.extend("count", {6, "iteration"}, [&](Trainer&) { before = optimizer->bytes_sent() - before; });
  EXPECT_EQ(trainer.run(), 0);
  return {torch::nn::utils::parameters_to_vector(model->parameters()), before};
}

TEST(Recompute, ABlockMayBeUsedSeveralTimes) {
  for (const bool overlap : {false, true}) {
    const auto [expected, bytes] = train_shared_block(false, overlap);
    const auto [found, sent] = train_shared_block(true, overlap);
    EXPECT_TRUE(torch::allclose(found, expected, 1e-5, 1e-6)) << overlap;
    EXPECT_EQ(sent, bytes) << "overlap " << overlap << ": gradients are sent once a step";
  }
}

TEST(Recompute, InputsGetTheirGradients) {
  const auto product = [](const std::vector<at::Tensor>& in) { return in[0] * in[1] + in[2]; };
  std::vector<at::Tensor> inputs;
  for (const bool wanted : {true, false, true}) inputs.push_back(torch::randn({4}).requires_grad_(wanted));
  recompute_activations(product, inputs).sum().backward();
  EXPECT_TRUE(inputs[0].grad().equal(inputs[1]));
  EXPECT_FALSE(inputs[1].grad().defined());
  EXPECT_TRUE(inputs[2].grad().equal(torch::ones({4})));
}

TEST(Recompute, GradientsOfGradientsAreAnError) {
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const auto cube = [](const at::Tensor& input) { return input.pow(3); };
  const at::Tensor loss = recompute_activations(cube, x).sum();
  EXPECT_THROW((void)torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true), ArgumentError);
}

TEST(Recompute, WithoutGradientsItIsTheFunction) {
  const at::NoGradGuard no_grad;
  int calls = 0;
  const auto twice = [&](const at::Tensor& x) { return ++calls, x * 2; };
  EXPECT_TRUE(recompute_activations(twice, torch::ones({2})).equal(torch::full({2}, 2.0)));
  EXPECT_EQ(calls, 1);
}

/// Counts the bytes of this thread's tensors.
class LiveBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*place*/, std::int64_t bytes, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    live += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live = 0;
};

TEST(Recompute, InnerActivationsAreNotKept) {
  constexpr std::int64_t kBytes = 4096;
  const auto chain = [](const at::Tensor& x) {
    at::Tensor h = x;
    for (int i = 0; i < 20; ++i) h = torch::sin(h);  // each keeps its input
    return h;
  };
  const auto growth = [&](bool recompute) {
    const auto x = torch::ones({kBytes / 4}).requires_grad_();
    const auto count = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, count);
    const at::Tensor y = recompute ? recompute_activations(chain, x) : chain(x);
    return count->live;
  };
  EXPECT_GE(growth(false), 19 * kBytes);
  EXPECT_LT(growth(true), 4 * kBytes);  // the output, and the generator's state
}

}  // namespace
}  // namespace mn
