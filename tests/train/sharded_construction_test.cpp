// Models that are made, loaded and saved in pieces.
#include <mn/sharding/sharded_construction.hpp>

#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;

/// Has layers that libtorch initializes, and a last loop that overwrites some parameters.
struct MadeNet : torch::nn::Module {
  MadeNet() {
    table = register_module("table", torch::nn::Embedding(11, 6));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})));
    wide = register_module("wide", torch::nn::Linear(6, 13));
    scale = register_parameter("scale", torch::rand({13}));
    last = register_module("last", torch::nn::Linear(13, 11));
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      if (item.value().dim() == 2) torch::nn::init::normal_(item.value(), 0, 0.2);
    }
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return torch::nn::functional::cross_entropy(last(torch::gelu(wide(norm(table(tokens)))) * scale), tokens);
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear wide{nullptr}, last{nullptr};
  at::Tensor scale;
};

std::shared_ptr<MadeNet> make_plain() {
  torch::manual_seed(4);
  return std::make_shared<MadeNet>();
}

std::shared_ptr<MadeNet> make_sharded() {
  torch::manual_seed(4 + world()->rank());  // the values are rank 0's
  return construct_sharded(
      world(), [] { return std::make_shared<MadeNet>(); }, /*whole_bytes=*/0);
}

void expect_in_pieces(const torch::nn::Module& model) {
  for (const auto& [name, parameter] : named_parameters(model)) EXPECT_TRUE(is_in_pieces(parameter)) << name;
}

void expect_values(const torch::nn::Module& model, const torch::nn::Module& plain) {
  const NamedTensors parameters = named_parameters(model), expected = named_parameters(plain);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(parameters[i].second, expected[i].second)) << expected[i].first;
  }
}

/// Trains some steps, and returns the parameters.
std::vector<at::Tensor> train_steps(MadeNet& model, Shard what) {
  name_tensors(model);
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<FusedAdamW>(model.parameters(), torch::optim::AdamWOptions(0.01)),
                                  world(), {.shard = {.what = what}});
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    optimizer->scale_loss(model.forward((torch::arange(5) * (step + 2) + world()->rank()) % 11), 5).backward();
    optimizer->step(5);
  }
  const WholeParameters whole(model);
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : model.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

TEST(ShardedConstruction, ValuesAreThoseOfAPlainModel) {
  const auto model = make_sharded();
  expect_in_pieces(*model);
  expect_values(*model, *make_plain());
}

TEST(ShardedConstruction, AModelInPiecesTrainsAsAPlainOne) {
  for (const Shard what : {Shard::kOptimizer, Shard::kParameters}) {
    const auto result = train_steps(*make_sharded(), what), expected = train_steps(*make_plain(), Shard::kNone);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(result[i], expected[i])) << i;
  }
}

TEST(ShardedConstruction, PiecesBecomeNarrow) {
  const auto model = make_sharded(), plain = make_plain();
  for (const auto& each : {model, plain}) narrow_weights(*each, at::kBFloat16);
  EXPECT_EQ(model->wide->weight.scalar_type(), at::kBFloat16);
  expect_in_pieces(*model);
  expect_values(*model, *plain);
}

TEST(ShardedConstruction, PiecesAreLoadedAndSaved) {
  const toy::TestFolder folder(world());
  const auto given = make_plain();
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : given->parameters()) parameter.add_(1);
  }
  save_model(folder.path() / "plain.safetensors", *given, *world());
  const auto model = make_sharded();
  load_model(folder.path() / "plain.safetensors", *model, *world());
  expect_in_pieces(*model);
  save_model(folder.path() / "sharded.safetensors", *model, *world());
  expect_in_pieces(*model);
  EXPECT_EQ(read_file(folder.path() / "sharded.safetensors"), read_file(folder.path() / "plain.safetensors"));
  expect_values(*model, *given);
}

/// Three tensors of 40 MiB: malloc() returns blocks above 32 MiB to the system at once.
struct Large : torch::nn::Module {
  Large() {
    const torch::NoGradGuard no_grad;
    for (const char* name : {"a", "b", "c"}) register_parameter(name, torch::empty({40, 1 << 18})).fill_(3);
  }
};

TEST(ShardedConstruction, MemoryIsThatOfTheLargestTensorAndOfPieces) {
  constexpr std::int64_t kTensor = 40 << 20, kModel = 3 * kTensor, kSlack = 16 << 20;
  const toy::TestFolder folder(world());
  const std::int64_t before = test::resident_bytes();
  if (!test::reset_peak_bytes()) GTEST_SKIP();
  const auto model = construct_sharded(
      world(), [] { return std::make_shared<Large>(); }, /*whole_bytes=*/0);
  save_model(folder.path() / "model.safetensors", *model, *world(), {}, kTensor + 1);
  load_model(folder.path(), *model, *world());
  EXPECT_LE(test::peak_bytes() - before, kModel / world()->size() + 2 * kTensor + kSlack);
}

}  // namespace
}  // namespace mn
