// Experts on several ranks train as in one process with all tokens.
#include <mn/nn/mixture_of_experts.hpp>

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;
using Comm = std::shared_ptr<Communicator>;

constexpr std::int64_t kWidth = 6;

struct Case {
  const char* name;
  MixtureOfExpertsOptions form = {};
  std::function<std::int64_t(int rank)> tokens = [](int rank) { return 3 * rank + 1; };
  bool one_expert = false;  // the router gives all tokens to expert 2
};

void PrintTo(const Case& value, std::ostream* stream) { *stream << value.name; }

/// A linear layer before the experts, so that gradients go on beyond the experts.
struct Net : torch::nn::Module {
  Net(const Comm& comm, MixtureOfExpertsOptions form, bool one_expert)
      : embed(register_parameter("embed", torch::eye(kWidth, at::kDouble) + 0.1)) {
    form.width = kWidth;
    form.hidden = 5;
    form.dtype = at::kDouble;
    experts = register_module("experts", MixtureOfExperts(comm, form));
    const torch::NoGradGuard no_grad;
    if (one_expert) experts->named_parameters()["router.weight"].zero_()[2].fill_(4);
  }
  at::Tensor embed;
  MixtureOfExperts experts{nullptr};
};

/// The mixture in one process, token by token: the definition of the layer.
struct Reference {
  std::vector<at::Tensor> parameters;  // embed, router, up, down

  struct Result {
    at::Tensor output, balance, z;
  };
  [[nodiscard]] Result operator()(const at::Tensor& tokens, const MixtureOfExpertsOptions& form) const {
    const at::Tensor x = tokens.matmul(parameters[0]), logits = x.matmul(parameters[1].t());
    const at::Tensor p = torch::softmax(logits, 1);
    const std::int64_t n = x.size(0), experts = form.experts, k = form.experts_per_token;
    auto [weights, chosen] = p.topk(k, 1);
    if (k > 1) weights = weights / weights.sum(1, true);
    const double room = form.capacity_factor * static_cast<double>(n * k) / static_cast<double>(experts);
    std::vector<double> used(static_cast<std::size_t>(experts)), given(used);
    std::vector<at::Tensor> rows;
    for (std::int64_t t = 0; t < n; ++t) rows.push_back(torch::zeros({kWidth}, at::kDouble));
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t t = 0; t < n; ++t) {
        const auto e = chosen[t][j].item<std::int64_t>();
        given[static_cast<std::size_t>(e)] += 1;
        if (form.capacity_factor > 0 && used[static_cast<std::size_t>(e)] >= std::ceil(room)) continue;
        used[static_cast<std::size_t>(e)] += 1;
        const at::Tensor hidden = torch::gelu(parameters[2][e].matmul(x[t]), "tanh");
        rows[static_cast<std::size_t>(t)] =
            rows[static_cast<std::size_t>(t)] + weights[t][j] * parameters[3][e].matmul(hidden);
      }
    }
    const at::Tensor fractions = torch::tensor(given, at::kDouble) / static_cast<double>(n * k);
    return {torch::stack(rows), static_cast<double>(experts) * (fractions * p.mean(0)).sum(),
            torch::logsumexp(logits, 1).square().mean()};
  }
};

/// Tokens of all ranks for a step, in rank order; positive.
at::Tensor tokens_of(std::int64_t count, std::int64_t step) {
  return torch::sin(torch::arange(count * kWidth).view({count, kWidth}).to(at::kDouble) * 0.7 +
                    static_cast<double>(step)) *
             0.5 +
         1;
}

at::Tensor distance(const at::Tensor& output) { return (output - 0.3).square().sum(1); }

/// This rank's elements of up_proj and down_proj.
std::vector<at::Tensor> pieces_of(const Net& net) {
  std::vector<at::Tensor> pieces;
  for (const char* name : {"up_proj", "down_proj"}) {
    const at::Tensor parameter = net.experts->named_parameters()[name], elements = find_piece(parameter)->elements;
    const std::int64_t rows = parameter.size(1), columns = parameter.size(2);
    pieces.push_back(elements.detach().view({elements.numel() / (rows * columns), rows, columns}));
  }
  return pieces;
}

/// Gathers the parameters of all ranks of the first group. Collective.
std::vector<at::Tensor> whole(const Net& net, Communicator& comm, int parallel) {
  std::vector<at::Tensor> all = {net.embed.detach().clone(),
                                 net.experts->named_parameters()["router.weight"].detach().clone()};
  for (const at::Tensor& piece : pieces_of(net)) {
    auto pieces = allgather_tensors(comm, piece.contiguous());
    pieces.resize(static_cast<std::size_t>(parallel));
    all.push_back(torch::cat(pieces));
  }
  return all;
}

class MixtureOfExpertsTest : public testing::TestWithParam<Case> {
 protected:
  /// This rank's first token, and the number of tokens of all ranks.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range() const {
    std::int64_t first = 0, all = 0;
    for (int r = 0; r < world()->size(); ++r) {
      if (r == world()->rank()) first = all;
      all += GetParam().tokens(r);
    }
    return {first, all};
  }
};

TEST_P(MixtureOfExpertsTest, TrainsAsOneProcessWithAllTokens) {
  const Case& how = GetParam();
  const int ranks = world()->size();
  MixtureOfExpertsOptions form = how.form;
  if (form.expert_parallel == 2 && ranks % 2 != 0) form.expert_parallel = 1;
  const int parallel = form.expert_parallel == 0 ? ranks : form.expert_parallel;
  if (!form.experts_of_rank.empty()) {  // all experts on the last rank
    form.experts_of_rank.assign(static_cast<std::size_t>(ranks), 0);
    form.experts_of_rank.back() = form.experts;
  }
  torch::manual_seed(7 + world()->rank());  // the layer takes rank 0's random numbers
  Net net(world(), form, how.one_expert);
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(net.parameters(), 0.05), world());
  Reference one{whole(net, *world(), parallel)};
  for (at::Tensor& each : one.parameters) each.requires_grad_();
  const auto [first, all] = range();
  const std::int64_t own = how.tokens(world()->rank());
  for (std::int64_t step = 0; step < 3; ++step) {
    const at::Tensor tokens = tokens_of(all, step);
    optimizer->zero_grad();
    const auto mixed = net.experts->forward(tokens.narrow(0, first, own).matmul(net.embed));
    const at::Tensor loss = distance(mixed.output).sum() / std::max<double>(1, static_cast<double>(own)) +
                            0.3 * mixed.balance_loss + 0.2 * mixed.z_loss;
    optimizer->scale_loss(loss, static_cast<double>(own)).backward();
    optimizer->step(static_cast<double>(own));

    const auto result = one(tokens, form);
    EXPECT_TRUE(torch::allclose(mixed.output, result.output.narrow(0, first, own), 1e-9, 1e-10)) << step;
    (distance(result.output).mean() + 0.3 * result.balance + 0.2 * result.z).backward();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& each : one.parameters) {
      each.sub_(each.grad(), 0.05);
      each.mutable_grad().reset();
    }
  }
  const auto trained = whole(net, *world(), parallel);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    EXPECT_TRUE(torch::allclose(trained[i], one.parameters[i], 1e-9, 1e-10))
        << "parameter " << i << " differs by " << (trained[i] - one.parameters[i]).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Nn, MixtureOfExpertsTest,
    testing::Values(
        Case{"OneExpertForEachToken", {.experts = 4, .experts_per_token = 1}},
        Case{"TwoExpertsForEachToken", {.experts = 5}},
        Case{"AllExpertsForEachToken", {.experts = 3, .experts_per_token = 3}},
        Case{"FewerExpertsThanRanks", {.experts = 2, .experts_per_token = 1}},
        Case{"Capacity", {.experts = 5, .capacity_factor = 0.8}},
        Case{"SmallCapacity", {.experts = 4, .experts_per_token = 1, .capacity_factor = 0.3}},
        Case{"NoTokensOnRankZero", {.experts = 5}, [](int rank) { return world()->size() == 1 ? 4 : 5 * rank; }},
        Case{"AllTokensToOneExpert", {.experts = 4, .experts_per_token = 1}, [](int) { return 4; }, true},
        Case{"AllTokensToOneExpertWithCapacity",
             {.experts = 4, .experts_per_token = 1, .capacity_factor = 1},
             [](int rank) { return 4 + rank; },
             true},
        Case{"ExpertsOnTheLastRank", {.experts = 4, .experts_of_rank = {1}}},
        Case{"CopiesOnEachRank", {.experts = 4, .expert_parallel = 1}},
        Case{"CopiesOnPairs", {.experts = 3, .capacity_factor = 1, .expert_parallel = 2}}),
    [](const auto& test) { return test.param.name; });

/// A job with experts. Of the first `ranks` ranks; null on the rest.
struct Job {
  Job(const Comm& comm, const std::filesystem::path& out, std::int64_t iterations) {
    torch::manual_seed(5);
    net = std::make_shared<Net>(comm, MixtureOfExpertsOptions{.experts = 5}, false);
    auto optimizer = create_multi_node_optimizer(std::make_unique<FusedAdam>(net->parameters(), 0.01), comm);
    optimizer->add_hook("clip", gradient_clipping(0.05));
    const auto loss = [model = net](const Batch& batch, Summary&) {
      const auto mixed = model->experts->forward(batch.data.to(at::kDouble).matmul(model->embed));
      return distance(mixed.output).mean() + 0.1 * mixed.balance_loss;
    };
    trainer = std::make_unique<Trainer>(comm, std::move(optimizer),
                                        std::make_shared<toy::ToyIterator>(48, 12 / comm->size(), *comm), net, loss,
                                        TrainerOptions{.iterations = iterations, .out = out});
  }
  std::shared_ptr<Net> net;
  std::unique_ptr<Trainer> trainer;
};

TEST(MixtureOfExpertsCheckpoint, IsResumedByAnotherNumberOfRanks) {
  const toy::TestFolder folder(world());
  const auto alone = world()->split(world()->rank(), 0);
  const Job whole_job(alone, folder.path() / ("alone" + std::to_string(world()->rank())), 6);
  EXPECT_EQ(whole_job.trainer->run(), 0);
  const auto wanted = whole(*whole_job.net, *alone, 1);
  const auto first_ranks = [](int ranks) { return world()->split(world()->rank() < ranks ? 0 : -1, world()->rank()); };
  for (int savers = 1; savers <= world()->size(); ++savers) {
    const int loaders = world()->size() + 1 - savers;
    const std::string path = (folder.path() / ("of" + std::to_string(savers))).string();
    if (const auto comm = first_ranks(savers)) {
      const Job job(comm, folder.path() / "saver", 3);
      EXPECT_EQ(job.trainer->run(), 0);
      job.trainer->save(path);
    }
    world()->barrier();
    if (const auto comm = first_ranks(loaders)) {
      const Job job(comm, folder.path() / "loader", 6);
      EXPECT_TRUE(job.trainer->resume(path));
      EXPECT_EQ(job.trainer->run(), 0);
      const auto trained = whole(*job.net, *comm, comm->size());
      for (std::size_t i = 0; i < trained.size(); ++i) {
        EXPECT_TRUE(torch::allclose(trained[i], wanted[i], 1e-7, 1e-9)) << savers << " to " << loaders << ": " << i;
      }
    }
    world()->barrier();
  }
}

TEST(MixtureOfExpertsCheckpoint, WeightsFilesHaveAllExperts) {
  const toy::TestFolder folder(world());
  torch::manual_seed(1);
  const Net net(world(), {.experts = 5}, false);
  save_model(folder.path() / "model.safetensors", net, *world());
  torch::manual_seed(2);
  const auto alone = world()->split(world()->rank(), 0);
  Net other(alone, {.experts = 5}, false);
  load_model((folder.path() / "model.safetensors").string(), other, *alone);
  Net same(world(), {.experts = 5}, false);
  load_model((folder.path() / "model.safetensors").string(), same, *world());
  const auto wanted = whole(net, *world(), world()->size());
  for (const auto& found : {whole(other, *alone, 1), whole(same, *world(), world()->size())}) {
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
  }
}

TEST(MixtureOfExpertsTraining, LeavesFrozenExpertsAlone) {
  Net net(world(), {.experts = 5}, false);
  net.experts->named_parameters()["up_proj"].requires_grad_(false);
  const auto before = pieces_of(net);
  const std::vector<at::Tensor> first = {before[0].clone(), before[1].clone()};
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::AdamW>(net.parameters(), torch::optim::AdamWOptions(0.1)), world());
  const auto step = [&] {
    optimizer->zero_grad();
    distance(net.experts->forward(tokens_of(4, 0).matmul(net.embed)).output).mean().backward();
    optimizer->step();
    return pieces_of(net);
  };
  const bool has_experts = first[0].numel() > 0;
  EXPECT_TRUE(step()[0].equal(first[0]));
  EXPECT_EQ(step()[1].equal(first[1]), !has_experts);
  net.experts->named_parameters()["up_proj"].requires_grad_(true);
  EXPECT_EQ(step()[0].equal(first[0]), !has_experts);
}

/// Norms are of all experts, so ranks without experts take part.
TEST(MixtureOfExpertsTraining, HasTheNormsOfAllExperts) {
  const auto train = [](const Comm& comm, bool is_lamb) {
    torch::manual_seed(4);
    MixtureOfExpertsOptions form{.experts = 3};
    form.experts_of_rank.assign(static_cast<std::size_t>(comm->size()), 0);
    form.experts_of_rank.front() += 1;
    form.experts_of_rank.back() += 2;
    Net net(comm, form, false);
    std::unique_ptr<torch::optim::Optimizer> actual;
    if (is_lamb) actual = std::make_unique<Lamb>(net.parameters(), torch::optim::AdamWOptions(0.1));
    if (!is_lamb) actual = std::make_unique<Lars>(net.parameters(), torch::optim::SGDOptions(0.1), 0.1);
    const auto optimizer = create_multi_node_optimizer(std::move(actual), comm);
    optimizer->add_hook("clip", gradient_clipping(0.01));
    for (std::int64_t step = 0; step < 2; ++step) {
      optimizer->zero_grad();
      distance(net.experts->forward(tokens_of(7, step).matmul(net.embed)).output).mean().backward();
      optimizer->step();
    }
    return whole(net, *comm, comm->size());
  };
  const Comm own = world()->split(world()->rank(), 0);
  for (const bool is_lamb : {false, true}) {
    const auto divided = train(world(), is_lamb), alone = train(own, is_lamb);
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(torch::allclose(divided[i], alone[i], 1e-9, 1e-10)) << i;
  }
}

}  // namespace
}  // namespace mn
