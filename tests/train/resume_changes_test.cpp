// Resumes of programs whose models, groups or options are special: frozen layers, tied weights, groups that were added,
// settings that have changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/trainer.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;
using toy::world;

struct Layer : torch::nn::Module {
  explicit Layer(const at::Tensor& values) : weight(register_parameter("weight", values)) {}
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
  at::Tensor weight;
};

/// Two layers, which share their weight if they are tied.
struct TwoLayers : torch::nn::Module {
  explicit TwoLayers(bool tied = false) {
    torch::manual_seed(5);
    const std::int64_t width = tied ? 6 : 200;  // large enough for gradients that top-k and PowerSGD compress
    first = register_module("first", std::make_shared<Layer>(torch::randn({6, width}) * 0.1));
    second = register_module("second", std::make_shared<Layer>(tied ? first->weight : torch::randn({width, 6}) * 0.1));
  }
  at::Tensor forward(const at::Tensor& x) { return second->forward(torch::tanh(first->forward(x))); }
  std::shared_ptr<Layer> first, second;
};

at::Tensor weights_of(const torch::nn::Module& model) {
  return torch::nn::utils::parameters_to_vector(model.parameters()).detach().clone();
}

class ResumeChangesTest : public toy::CheckpointTest {
 protected:
  struct Job {
    std::shared_ptr<TwoLayers> model;
    std::unique_ptr<Trainer> trainer;
  };
  using Prepare = std::function<std::unique_ptr<torch::optim::Optimizer>(TwoLayers& model)>;

  Job make(std::int64_t iterations, const Prepare& prepare, const OptimizerOptions& how = {}, bool tied = false) const {
    const auto model = std::make_shared<TwoLayers>(tied);
    const auto loss = [model](const Batch& batch, Summary&) { return model->forward(batch.data).pow(2).mean(); };
    auto optimizer = create_multi_node_optimizer(prepare(*model), world(), how);
    return {model, std::make_unique<Trainer>(world(), std::move(optimizer),
                                             std::make_shared<toy::ToyIterator>(50, 4, *world()), model, loss,
                                             TrainerOptions{.iterations = iterations, .out = folder_.path()})};
  }
  static std::unique_ptr<torch::optim::Optimizer> sgd(TwoLayers& model, double momentum = 0.9) {
    return std::make_unique<SGD>(model.parameters(), SGDOptions(0.1).momentum(momentum));
  }
  /// Trains 4 iterations, then on to 8 in a program that resumes, and 8 in one that does not.
  void expect_as_without_a_break(const Prepare& prepare, bool tied = false) {
    const std::string path = (folder_.path() / "c").string();
    Job whole = make(8, prepare, {}, tied), first = make(4, prepare, {}, tied), second = make(8, prepare, {}, tied);
    EXPECT_EQ(whole.trainer->run(), 0);
    EXPECT_EQ(first.trainer->run(), 0);
    first.trainer->save(path);
    EXPECT_TRUE(second.trainer->resume(path));
    EXPECT_EQ(second.trainer->run(), 0);
    EXPECT_TRUE(weights_of(*second.model).equal(weights_of(*whole.model)));
    EXPECT_FALSE(weights_of(*second.model).equal(weights_of(*first.model)));
  }
};

TEST_F(ResumeChangesTest, FrozenLayersStayFrozen) {
  const TwoLayers initial;
  at::Tensor frozen;
  expect_as_without_a_break([&](TwoLayers& model) {
    model.first->weight.requires_grad_(false);
    frozen = model.first->weight;
    return sgd(model);
  });
  EXPECT_TRUE(frozen.equal(initial.first->weight));
}

/// By an extension, which has no state; the program of a resume begins with the layer frozen.
TEST_F(ResumeChangesTest, WhatWasUnfrozenTrainsOn) {
  const auto make_one = [&](std::int64_t iterations, bool frozen) {
    Job job = make(iterations, [&](TwoLayers& model) {
      model.first->weight.requires_grad_(!frozen);
      return sgd(model);
    });
    job.trainer->extend("unfreeze", {3, "iteration"}, [weight = job.model->first->weight](Trainer& trainer) mutable {
      if (trainer.iteration() == 3) weight.requires_grad_(true);
    });
    return job;
  };
  const std::string path = (folder_.path() / "c").string();
  const Job whole = make_one(8, true), first = make_one(4, true), second = make_one(8, true);
  EXPECT_EQ(whole.trainer->run(), 0);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  EXPECT_TRUE(second.trainer->resume(path));
  EXPECT_TRUE(second.model->first->weight.requires_grad());
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_TRUE(weights_of(*second.model).equal(weights_of(*whole.model)));
  // A program that freezes something else than the checkpoint's did means it.
  const Job other = make(8, [](TwoLayers& model) {
    model.second->weight.requires_grad_(false);
    return sgd(model);
  });
  EXPECT_TRUE(other.trainer->resume(path));
  EXPECT_TRUE(other.model->first->weight.requires_grad());
  EXPECT_FALSE(other.model->second->weight.requires_grad());
}

/// As rotary embeddings have them; also of the dtypes that a network is rarely trained in.
TEST_F(ResumeChangesTest, BuffersOfAnyDtypeAreSaved) {
  const auto values = torch::arange(1, 7, torch::kFloat).view({3, 2});
  const std::vector<at::Tensor> buffers = {at::view_as_complex(values), at::view_as_complex(values.to(torch::kDouble)),
                                           at::view_as_complex(values.clone()).conj(), values.to(torch::kUInt16),
                                           values.to(torch::kFloat8_e4m3fn)};
  const auto prepare = [&](bool is_filled) {
    return [&, is_filled](TwoLayers& model) {
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        model.register_buffer("b" + std::to_string(i), is_filled ? buffers[i].clone() : torch::zeros_like(buffers[i]));
      }
      return sgd(model);
    };
  };
  const auto expect_buffers = [&](const TwoLayers& model) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const at::Tensor found = model.named_buffers()["b" + std::to_string(i)];
      EXPECT_EQ(found.scalar_type(), buffers[i].scalar_type());
      const bool is_complex = found.is_complex();
      const auto wide = is_complex ? torch::kComplexDouble : torch::kDouble;
      EXPECT_TRUE(found.to(wide).resolve_conj().equal(buffers[i].to(wide).resolve_conj())) << i;
    }
  };
  const std::string path = (folder_.path() / "c").string();
  const Job first = make(2, prepare(true));
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  save_model(folder_.path() / "w.safetensors", *first.model, *world());
  for (const std::string from : {"resume", "c", "w.safetensors"}) {
    const Job next = make(2, prepare(false));
    if (from == "resume") {
      EXPECT_TRUE(next.trainer->resume(path));
    } else {
      load_model(folder_.path() / from, *next.model, *world());
    }
    expect_buffers(*next.model);
  }
  const Job real = make(2, [&](TwoLayers& model) {
    model.register_buffer("b0", values.clone());
    return sgd(model);
  });
  EXPECT_THAT(toy::message_of([&] { real.trainer->resume(path); }), testing::HasSubstr("\"b0\" is ComplexFloat [3]"));
}

TEST_F(ResumeChangesTest, TiedWeightsStayTied) {
  at::Tensor one, other;
  expect_as_without_a_break(
      [&](TwoLayers& model) {
        one = model.first->weight;
        other = model.second->weight;
        return sgd(model);
      },
      true);
  EXPECT_TRUE(one.is_same(other));
}

TEST_F(ResumeChangesTest, AnAddedGroupGoesOn) {
  expect_as_without_a_break([](TwoLayers& model) {
    auto optimizer = std::make_unique<SGD>(model.first->parameters(), SGDOptions(0.1).momentum(0.9));
    optimizer->add_param_group(
        {model.second->parameters(), std::make_unique<SGDOptions>(SGDOptions(0.02).momentum(0.5))});
    return optimizer;
  });
}

/// What the program says wins over the checkpoint, as if it had been set after the resume.
TEST_F(ResumeChangesTest, AnotherMomentumCounts) {
  const std::string path = (folder_.path() / "c").string();
  Job first = make(4, [](TwoLayers& model) { return sgd(model); });
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  const auto go_on = [&](double momentum, double set_later) {
    Job job = make(8, [&](TwoLayers& model) { return sgd(model, momentum); });
    EXPECT_TRUE(job.trainer->resume(path));
    auto& options = static_cast<SGDOptions&>(job.trainer->optimizer().param_groups().front().options());
    EXPECT_EQ(options.momentum(), momentum);
    options.momentum(set_later);
    EXPECT_EQ(job.trainer->run(), 0);
    return weights_of(*job.model);
  };
  EXPECT_TRUE(go_on(0.5, 0.5).equal(go_on(0.9, 0.5)));
  EXPECT_FALSE(go_on(0.5, 0.5).equal(go_on(0.9, 0.9)));
}

/// With residuals that begin empty.
/// A weight decay of one layer that begins or ends; groups are compared by their parameters, whatever their order.
TEST_F(ResumeChangesTest, AnotherDivisionIntoGroupsCounts) {
  const auto grouped = [](TwoLayers& model) -> std::unique_ptr<torch::optim::Optimizer> {
    const auto group_of = [](const at::Tensor& weight, double decay) {
      return torch::optim::OptimizerParamGroup({weight},
                                               std::make_unique<SGDOptions>(SGDOptions(0.1).weight_decay(decay)));
    };
    return std::make_unique<SGD>(std::vector{group_of(model.first->weight, 0.5), group_of(model.second->weight, 0.25)},
                                 SGDOptions(0.1));
  };
  const auto whole = [](TwoLayers& model) { return sgd(model, 0); };
  const auto decays = [](const Job& job) {
    std::vector<double> all;
    for (const auto& group : job.trainer->optimizer().param_groups()) {
      all.push_back(static_cast<const SGDOptions&>(group.options()).weight_decay());
    }
    return all;
  };
  const std::string path = (folder_.path() / "c").string();
  const Job first = make(1, grouped), again = make(2, grouped), one = make(2, whole), split = make(2, grouped);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  EXPECT_TRUE(again.trainer->resume(path));
  EXPECT_THAT(decays(again), testing::ElementsAre(0.5, 0.25));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(one.trainer->resume(path));
  const std::string said = testing::internal::GetCapturedStderr();
  if (world()->rank() == 0) {
    EXPECT_THAT(said, testing::HasSubstr("weight decay 0.0 (was 0.25) for second.weight\n"));
    EXPECT_THAT(said, testing::HasSubstr("weight decay 0.0 (was 0.5) for first.weight\n"));
  }
  EXPECT_THAT(decays(one), testing::ElementsAre(0));
  EXPECT_EQ(one.trainer->run(), 0);
  one.trainer->save(path);
  EXPECT_TRUE(split.trainer->resume(path));
  EXPECT_THAT(decays(split), testing::ElementsAre(0.5, 0.25));
}

TEST_F(ResumeChangesTest, CompressionMayBeginAndEnd) {
  for (const Compression kind : {Compression::kFp16, Compression::kTopK, Compression::kPowerSgd}) {
    const OptimizerOptions compressed = {.compression = {.kind = kind, .density = 0.1, .rank = 1}};
    const auto run = [&](const OptimizerOptions& how, std::int64_t iterations, const std::string& from) {
      Job job = make(
          iterations, [](TwoLayers& model) { return sgd(model); }, how);
      if (!from.empty()) {
        EXPECT_TRUE(job.trainer->resume(from));
      }
      EXPECT_EQ(job.trainer->run(), 0);
      job.trainer->save(folder_.path() / ("c" + std::to_string(iterations)));
      return job;
    };
    const std::string four = (folder_.path() / "c4").string(), six = (folder_.path() / "c6").string();
    run({}, 4, "");
    const Job plain = run({}, 6, four), begun = run(compressed, 6, four);
    if (world()->size() > 1) {
      EXPECT_FALSE(weights_of(*begun.model).equal(weights_of(*plain.model))) << "it has an effect";
    }
    EXPECT_TRUE(weights_of(*run(compressed, 6, four).model).equal(weights_of(*begun.model)));
    EXPECT_TRUE(weights_of(*run({}, 8, six).model).isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace mn
