// Lossy averages: the same bits on all ranks, and what one step does not send is sent later.
#include <limits>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;
using toy::bytes_of;
using toy::same_on_all;

/// Large enough for every compressor; the second layer can be left out.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(7);
    first = register_module("first", torch::nn::Linear(40, 60));
    second = register_module("second", torch::nn::Linear(60, 30));
  }
  at::Tensor forward(const at::Tensor& x, bool with_second) {
    const at::Tensor h = torch::tanh(first(x));
    return with_second ? second(h) : h;
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

struct Job {
  Net net;
  std::unique_ptr<MultiNodeOptimizer> optimizer;

  Job(const std::shared_ptr<Communicator>& comm, const OptimizerOptions& options, double lr = 0.1,
      double momentum = 0.9)
      : optimizer(create_multi_node_optimizer(
            std::make_unique<SGD>(net.parameters(), SGDOptions(lr).momentum(momentum)), comm, options)) {}

  /// Irregular on purpose: ranks differ in weights and in whether they use the second layer, which at times none does.
  void train(int first, int last) {
    const int rank = optimizer->communicator()->rank();
    for (int k = first; k < last; ++k) {
      torch::manual_seed(1000 * k + rank);
      optimizer->zero_grad();
      const bool with_second = k % 4 != 3 && (k + rank) % 3 != 0;
      net.forward(torch::randn({3, 40}), with_second).pow(2).mean().backward();
      optimizer->step(1 + (k + rank) % 2);
    }
  }
};

class CompressionTest : public testing::TestWithParam<Compression> {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  CompressionOptions compression_{.kind = GetParam(), .density = 0.05, .rank = 2};
};

TEST_P(CompressionTest, AllRanksHoldTheSameBits) {
  for (const bool double_buffering : {false, true}) {
    Job job(comm_, {.double_buffering = double_buffering, .compression = compression_});
    job.train(0, 8);
    job.optimizer->synchronize();
    EXPECT_TRUE(same_on_all(bytes_of(job.net.parameters()))) << "double buffering " << double_buffering;
  }
}

TEST_P(CompressionTest, OverlapChangesNoBit) {
  Job direct(comm_, {.compression = compression_});
  direct.train(0, 20);
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{8000}, std::size_t{1} << 20}) {
    Job overlapped(comm_, {.overlap = true, .compression = compression_, .bucket_bytes = bucket_bytes});
    overlapped.train(0, 20);
    EXPECT_EQ(bytes_of(overlapped.net.parameters()), bytes_of(direct.net.parameters()))
        << "buckets of " << bucket_bytes;
  }
}

TEST(CastCompression, OverflowTravelsLaterAndInfinityLeavesNothing) {
  const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  const at::Tensor p = torch::zeros({5}).requires_grad_();
  const auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)),
                                                     comm, {.compression = {.kind = Compression::kFp16}});
  const auto step = [&](double gradient) {
    optimizer->zero_grad();
    (p.sum() * gradient).backward();
    optimizer->step();
  };
  step(1e5);
  EXPECT_TRUE(p.isfinite().all().item<bool>());
  step(1);
  step(1);
  EXPECT_TRUE(torch::allclose(p, torch::full({5}, -100'002.0))) << p;
  step(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(p.grad().isfinite().any().item<bool>()) << "the mean must not be finite";
  step(1);
  EXPECT_TRUE(p.grad().equal(torch::ones({5})));
}

/// docs/training.md names these bounds. The ranks' gradients have 16 bits, their mean has more.
TEST(CastCompression, ASumOverManyStepsIsOffByTheRoundingOfTheMeanAtMost) {
  const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  for (const auto& [kind, bound] : {std::pair(Compression::kFp16, 0x1p-11), std::pair(Compression::kBf16, 0x1p-8)}) {
    const at::Tensor p = torch::zeros({5}, at::kFloat).requires_grad_();
    const auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)),
                                                       comm, {.compression = {.kind = kind}});
    const double own = 1 + (comm->rank() == 0 ? 0 : 2 * bound),
                 mean = 1 + 2 * bound * (comm->size() - 1) / comm->size();
    for (int k = 0; k < 100; ++k) {
      optimizer->zero_grad();
      (p.sum() * own).backward();
      optimizer->step();
    }
    const double off = p.add(100 * mean).abs().max().item<double>() / (100 * mean);
    EXPECT_LE(off, bound);
    EXPECT_TRUE(comm->size() != 2 || off > bound / 2) << off;
  }
}

TEST_P(CompressionTest, WhatIsNotSentIsKept) {
  // With a rate of 1 the parameters are the sum of what was applied: it lacks the mean of what the ranks remember.
  constexpr int kSteps = 6;
  std::vector<at::Tensor> plain;
  const auto sum_gradients = [&](const CompressionOptions& compression) {
    auto p = torch::zeros({50, 40}).requires_grad_();
    auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)),
                                                 comm_, {.compression = compression});
    for (int k = 0; k < kSteps; ++k) {
      torch::manual_seed(100 * k + comm_->rank());
      optimizer->zero_grad();
      (p * torch::randn({50, 40})).sum().backward();
      optimizer->step();
    }
    at::Tensor residual = torch::zeros({2000});
    for (const auto& [name, tensor] : optimizer->rank_state()) {
      if (name == "residual.0") residual.copy_(tensor);
    }
    comm_->allreduce(residual);
    return std::pair(p.detach(), residual.view({50, 40}) / comm_->size());
  };
  const at::Tensor all = sum_gradients({}).first;
  const auto [sent, residual] = sum_gradients(compression_);
  const bool lossy = comm_->size() > 1;
  EXPECT_EQ(residual.abs().max().item<double>() > 0, lossy);
  EXPECT_EQ(sent.equal(all), !lossy);
  const double rounding = GetParam() == Compression::kBf16 ? 0.1 : GetParam() == Compression::kFp16 ? 0.01 : 1e-4;
  EXPECT_LT((sent - residual - all).abs().max().item<double>(), rounding);
}

/// What all ranks count alike changes no mean: residuals must not grow, or shrink, with it.
TEST_P(CompressionTest, ResidualsAreInUnitsOfTheMean) {
  const auto train = [&](bool counts, const OptimizerOptions& options) {
    Job job(comm_, options, 0.1, 0);
    for (int k = 0; k < 12; ++k) {
      torch::manual_seed(100 * k + comm_->rank());
      job.optimizer->zero_grad();
      const double samples = k % 4 == 3 ? 1 : 128;
      const at::Tensor loss = job.net.forward(torch::randn({3, 40}), true).pow(2).mean();
      (counts && k > 5 ? job.optimizer->scale_loss(loss, samples) : loss).backward();
      counts ? job.optimizer->step(samples) : job.optimizer->step();
    }
    return torch::nn::utils::parameters_to_vector(job.net.parameters()).detach();
  };
  const at::Tensor equal = train(false, {.compression = compression_});
  for (const bool overlap : {false, true}) {
    const at::Tensor found = train(true, {.overlap = overlap, .compression = compression_, .bucket_bytes = 4096});
    EXPECT_TRUE(torch::allclose(found, equal, 1e-3, 1e-4)) << overlap << " " << (found - equal).abs().max();
  }
}

/// The second loss begins after the first bucket is under way, and its weight joins that of the others.
TEST_P(CompressionTest, LossesOfOneBackwardMayMeetEarlyBuckets) {
  const auto train = [&](bool overlap) {
    const at::Tensor p = torch::zeros({50, 40}).requires_grad_(), q = torch::zeros({60, 40}).requires_grad_();
    const auto optimizer = create_multi_node_optimizer(
        std::make_unique<SGD>(std::vector<at::Tensor>{p, q}, SGDOptions(1)), comm_,
        {.overlap = overlap, .compression = compression_, .deterministic = true, .bucket_bytes = 16});
    for (int k = 0; k < 6; ++k) {
      torch::manual_seed(100 * k + comm_->rank());
      optimizer->zero_grad();
      const at::Tensor late = optimizer->scale_loss((p * torch::randn({50, 40})).sum(), 2);
      const at::Tensor early = optimizer->scale_loss((q * torch::randn({60, 40})).sum(), 4);
      (late + early).backward();
      optimizer->step(6);
    }
    return bytes_of({p, q});
  };
  EXPECT_EQ(train(true), train(false));
}

/// With a rate of 1: what was applied and what the ranks keep are the sum of the gradients, whoever has the samples.
TEST_P(CompressionTest, NothingIsLostWhereParametersAreFrozenAndAdded) {
  for (const OptimizerOptions& how : {OptimizerOptions{}, {.overlap = true, .bucket_bytes = 4096}}) {
    OptimizerOptions options = how;
    options.compression = compression_;
    const at::Tensor p = torch::zeros({50, 40}).requires_grad_(), q = torch::zeros({40, 40}).requires_grad_();
    const at::Tensor r = torch::zeros({30, 40}).requires_grad_();
    const auto optimizer = create_multi_node_optimizer(
        std::make_unique<SGD>(std::vector<at::Tensor>{q, p}, SGDOptions(1)), comm_, options);
    at::Tensor sum = torch::zeros({50, 40});
    for (int k = 0; k < 16; ++k) {
      q.requires_grad_(k < 2 || k % 3 == 0);
      if (k == 8) optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({r}));
      const double samples = k % 5 == 4 && comm_->rank() > 0 ? 0 : 1 + (k + comm_->rank()) % 3;
      torch::manual_seed(100 * k + comm_->rank());
      std::vector<at::Tensor> mean = {torch::randn({50, 40}) * samples, torch::full({1}, samples)};
      optimizer->zero_grad();
      if (samples > 0) ((p * mean[0]).sum() / samples + q.sum() + r.sum()).backward();
      optimizer->step(samples);
      for (const at::Tensor& each : mean) comm_->allreduce(each);
      sum += mean[0] / mean[1];
    }
    at::Tensor residual = torch::zeros({2000});
    for (const auto& [name, tensor] : optimizer->rank_state()) {
      if (name == "residual.1") residual.copy_(tensor);
    }
    comm_->allreduce(residual);
    const double rounding = GetParam() == Compression::kBf16 ? 0.2 : GetParam() == Compression::kFp16 ? 0.02 : 1e-4;
    const at::Tensor error = p.detach() + sum - residual.view({50, 40}) / comm_->size();
    EXPECT_LT(error.abs().max().item<double>(), rounding) << "overlap " << options.overlap.value_or(false);
  }
}

TEST_P(CompressionTest, AResumeContinuesWithTheResiduals) {
  Job whole(comm_, {.compression = compression_}, 0.1, 0);
  whole.train(0, 10);
  Job before(comm_, {.compression = compression_}, 0.1, 0);
  before.train(0, 5);
  Job after(comm_, {.compression = compression_}, 0.1, 0);
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 4; ++i) after.net.parameters()[i].copy_(before.net.parameters()[i]);
  }
  after.optimizer->load_state(before.optimizer->state());
  after.optimizer->load_rank_state(before.optimizer->rank_state());
  after.train(5, 10);
  EXPECT_EQ(bytes_of(after.net.parameters()), bytes_of(whole.net.parameters()));
  if (comm_->size() > 1) {
    EXPECT_THROW(after.optimizer->load_rank_state({{"residual.0", torch::zeros({1})}}), DataError);
  }
}

TEST_P(CompressionTest, WhatAStepDoesNotUseKeepsItsResidual) {
  Job job(comm_, {.compression = compression_}, 0.1, 0);
  job.train(0, 3);
  const auto residual = [&](const std::string& end) {  // for parameter `end`
    std::string bytes;
    for (const auto& [name, tensor] : job.optimizer->rank_state()) {
      if (name.ends_with("." + end)) bytes += bytes_of({tensor});
    }
    return bytes;
  };
  const std::string first = residual("0");
  const std::string second = residual("2");
  const std::string parameters = bytes_of(job.net.parameters());
  job.optimizer->zero_grad();
  job.optimizer->step(0);
  EXPECT_EQ(residual("0") + residual("2"), first + second) << "no rank had a sample";
  EXPECT_EQ(bytes_of(job.net.parameters()), parameters);
  job.train(3, 4);
  EXPECT_EQ(residual("0") != first, comm_->size() > 1);
  EXPECT_EQ(residual("2"), second) << "no rank used the second layer";
}

TEST_P(CompressionTest, FollowsAChangedParameterSet) {
  const at::Tensor p = torch::zeros({40, 40}).requires_grad_();
  const at::Tensor q = torch::zeros({64, 64}).requires_grad_();
  const auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)),
                                                     comm_, {.compression = compression_});
  const auto step = [&](const at::Tensor& loss) {
    loss.backward();
    optimizer->step();
    optimizer->zero_grad();
  };
  step(p.sum());
  const std::uint64_t sent = optimizer->bytes_sent();
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({q}));
  optimizer->zero_grad();
  step((p * q.narrow(0, 0, 40).narrow(1, 0, 40)).sum() + q.sum());
  EXPECT_TRUE(same_on_all(bytes_of({p, q})));
  EXPECT_NE(q.detach().abs().sum().item<double>(), 0);
  EXPECT_EQ(optimizer->bytes_sent() > sent, comm_->size() > 1) << "bytes are counted across the change";
}

std::string name_of(const testing::TestParamInfo<Compression>& kind) {
  return compression_names()[static_cast<std::size_t>(kind.param)];
}
INSTANTIATE_TEST_SUITE_P(Lossy, CompressionTest,
                         testing::Values(Compression::kFp16, Compression::kBf16, Compression::kTopK,
                                         Compression::kPowerSgd),
                         name_of);

}  // namespace
}  // namespace mn
