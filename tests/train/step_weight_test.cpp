// What a rank weighs in a step: several optimizers, ranks without samples, 16-bit gradients, other ranks' losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>

#include "tests/train/experts.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::Comm;
using toy::Experts;
using toy::ones;
using toy::sgd;
using toy::world;

/// The second minibatch of rank 0 reaches the first optimizer's parameter alone.
TEST(StepWeight, LossesThatReachOneOptimizerAloneCountForBoth) {
  for (const bool overlap : {false, true}) {
    const at::Tensor a = ones({3}), b = ones({4});
    const auto first = sgd({a}, world(), 1, {.overlap = overlap}), second = sgd({b}, world(), 1, {.overlap = overlap});
    for (int k = 0; k < 3; ++k) {
      first->zero_grad();
      second->zero_grad();
      first->scale_loss(a.sum() + b.sum(), 4, 2).backward();
      first->scale_loss(world()->rank() == 0 ? a.sum() : a.sum() + b.sum(), 4, 2).backward();
      first->step(8);
      second->step(8);
    }
    EXPECT_TRUE(torch::allclose(a, torch::full({3}, -2.0))) << a;
    EXPECT_TRUE(torch::allclose(b, torch::full({4}, 1 - 3 * (world()->size() - 0.5) / world()->size()))) << b;
  }
}

TEST(StepWeight, ARankMayHaveNoSamplesInTheFirstStep) {
  for (const bool other_first : {false, true}) {
    const at::Tensor a = ones({3}), b = ones({4});
    const auto first = sgd({a}, world()), second = sgd({b}, world());
    for (int k = 0; k < 2; ++k) {
      const double samples = world()->rank() == 1 && k == 0 ? 0 : 4;
      first->zero_grad();
      second->zero_grad();
      if (samples > 0) first->scale_loss(a.sum() + b.sum(), samples).backward();
      (other_first ? second : first)->step(samples);
      (other_first ? first : second)->step(samples);
    }
    EXPECT_TRUE(torch::allclose(a, torch::full({3}, -1.0))) << a;
    EXPECT_TRUE(torch::allclose(b, torch::full({4}, -1.0))) << b;
  }
}

/// In the first step, too, in which each rank's loss has a unit of its own, and where ranks have many more samples.
TEST(StepWeight, UnitsOfRanksThatDifferMeetInBackward) {
  const auto train = [](const Comm& comm, std::int64_t steps) {
    const at::Tensor w = ones({2});
    const auto optimizer = sgd({w}, comm, 0.1);
    for (std::int64_t k = 0; k < steps; ++k) {
      const std::int64_t times = k == 1 ? 5 : 1, all = times * world()->size() * (world()->size() + 1) / 2;
      const std::int64_t begin = comm->size() == 1 ? 0 : times * comm->rank() * (comm->rank() + 1) / 2;
      const std::int64_t own = comm->size() == 1 ? all : times * (comm->rank() + 1);
      const at::Tensor x = (torch::arange(2 * all).view({all, 2}) + k).narrow(0, begin, own) * 0.1;
      optimizer->zero_grad();
      const at::Tensor mean = all_reduce(comm, (x * w).sum(0)) / all;
      optimizer->scale_loss((x * w - mean).square().sum(1).mean(), static_cast<double>(own)).backward();
      optimizer->step(static_cast<double>(own));
    }
    return w.detach();
  };
  const Comm alone = world()->split(world()->rank(), 0);
  for (const std::int64_t steps : {1, 3}) {
    EXPECT_TRUE(torch::allclose(train(world(), steps), train(alone, steps), 1e-4, 1e-6)) << steps;
  }
}

/// A group is added, or a parameter that was frozen from the start is trained, after a backward of half the unit.
TEST(StepWeight, StaysWithGradientsWhenTheSetChanges) {
  for (const bool added : {false, true}) {
    const at::Tensor a = ones({3}), b = ones({2});
    const auto optimizer = sgd(added ? std::vector{a} : std::vector{a, b.requires_grad_(false)}, world());
    for (const double samples : {8, 4}) {
      optimizer->zero_grad();
      optimizer->scale_loss(a.sum(), samples).backward();
      if (samples == 4 && added) optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({b}));
      b.requires_grad_(samples == 4 || added);
      optimizer->step(samples);
    }
    EXPECT_TRUE(a.eq(-1).all().item<bool>()) << a;
  }
}

TEST(StepWeight, Float16GradientsNeitherOverflowNorVanish) {
  for (const bool weighed : {false, true}) {
    const at::Tensor w = torch::zeros({4}, at::kHalf).requires_grad_();
    const auto optimizer = sgd({w}, world(), 1e-3);
    for (const double samples : {1.0, 100.0, 1e-3, 1e6, 3.0}) {
      // The first rank has all of a step's samples but a few.
      const double own = world()->rank() == 0 ? samples : samples / 64;
      for (const double gradient : {20'000.0, 0.001}) {
        optimizer->zero_grad();
        const at::Tensor loss = (w * gradient).sum();
        (weighed ? optimizer->scale_loss(loss, own) : loss).backward();
        optimizer->step(own);
        EXPECT_NEAR(w.grad()[0].item<double>() / gradient, 1, 2e-3) << samples << " samples, " << weighed;
      }
    }
  }
}

/// The sums of rank 0, whose samples are many, over the ranks of this communicator and of an equal one.
TEST(StepWeight, Float16GradientsOfOtherRanksDoNotOverflow) {
  const Comm equal = world()->split(0, world()->rank());
  for (const Comm& group : {world(), equal}) {
    const at::Tensor w = torch::zeros({4}, at::kHalf).requires_grad_();
    const auto optimizer = sgd({w}, world(), 1e-4);
    for (const double samples : {30'000.0, 8.0}) {
      const double own = world()->rank() == 0 ? samples : 8;
      optimizer->zero_grad();
      optimizer->scale_loss((all_reduce(group, w) * 10).sum(), own).backward();
      optimizer->step(own);
      EXPECT_NEAR(w.grad()[0].item<double>(), 10 * world()->size(), 0.05) << samples;
    }
  }
}

/// Few samples before many, in backwards of their own or in one, or many equal minibatches, of which nothing is said.
/// The optimizer that weighs them may have float32 parameters alone.
TEST(StepWeight, Float16GradientsOfLaterLossesDoNotOverflow) {
  for (const bool other_weighs : {false, true}) {
    const at::Tensor w = torch::zeros({4}, at::kHalf).requires_grad_(), v = ones({2});
    const auto optimizer = sgd({w}, world(), 1e-4), other = sgd({v}, world());
    for (const std::vector<double>& samples :
         {std::vector<double>{8, 8}, {1, 1000}, {1000, 1}, {0.5, 100, 30'000}, std::vector<double>(100, 1)}) {
      for (const bool together : {false, true}) {
        optimizer->zero_grad();
        other->zero_grad();
        at::Tensor all = torch::zeros({});
        double sum = 0;
        for (const double own : samples) {
          const at::Tensor loss = (other_weighs ? *other : *optimizer).scale_loss((w * 1000).sum() + v.sum(), own);
          together ? static_cast<void>(all = all + loss) : loss.backward();
          sum += own;
        }
        if (together) all.backward();
        optimizer->step(sum);
        other->step(sum);
        // 100 sums of float16 numbers round.
        EXPECT_NEAR(w.grad()[0].item<double>(), 1000, 5) << samples.back() << " samples, " << together << other_weighs;
        EXPECT_NEAR(v.grad()[0].item<double>(), 1, 1e-5) << samples.back() << " samples, " << together << other_weighs;
      }
    }
  }
}

/// Rank 0 has thousands of samples, and the others few, which they may have accumulated before. Ranks without a float16
/// parameter go along.
TEST(StepWeight, Float16GradientsOfExpertsDoNotOverflow) {
  const Comm alone = world()->split(world()->rank(), 0);
  for (const bool last_is_narrow : {true, false}) {
    const bool narrow = last_is_narrow || world()->rank() + 1 < world()->size();
    const at::Tensor e = torch::zeros({4}, narrow ? at::kHalf : at::kFloat).requires_grad_(), w = ones({4});
    const auto shared = sgd({w}, world()), experts = sgd({e}, alone, 1e-4, {.loss_ranks = world()});
    for (const double most : {8.0, 100'000.0, 1000.0}) {
      for (const bool twice : {false, true}) {
        const double own = world()->rank() == 0 ? most : 8;
        shared->zero_grad();
        experts->zero_grad();
        for (const double samples : twice ? std::vector{8.0, own} : std::vector{own}) {
          const std::vector<at::Tensor> parts(static_cast<std::size_t>(world()->size()),
                                              e.to(at::kFloat).view({1, 4}) * 1000);
          const at::Tensor got = torch::cat(alltoall(world(), parts));
          shared->scale_loss(got.sum() + (w * 1000).sum(), samples).backward();
        }
        shared->step(own + (twice ? 8 : 0));
        experts->step(own + (twice ? 8 : 0));
        EXPECT_NEAR(e.grad()[0].item<double>(), 1000, 2) << most << " samples, " << twice << narrow;
        EXPECT_NEAR(w.grad()[0].item<double>(), 1000, 1e-2) << most << " samples, " << twice << narrow;
      }
    }
  }
}

TEST(StepWeight, OfOptimizersThatAreGoneIsForgotten) {
  const at::Tensor w = ones({2});
  auto optimizer = sgd({w}, world());
  const at::Tensor loss = optimizer->scale_loss(w.sum(), 4);
  const std::size_t living = samples_weighed().size();
  optimizer.reset();
  loss.backward();
  EXPECT_EQ(samples_weighed().size(), living - 1);
}

TEST(StepWeight, NormsOf16BitGradientsAreFloat32) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor w = torch::zeros({100'000}, dtype).requires_grad_(), v = ones({1});
    const auto optimizer = sgd({w, v}, world());
    optimizer->zero_grad();
    (w * 4096).sum().backward();  // whose norm float16 can't hold
    const double norm = 4096 * std::sqrt(100'000.0);
    EXPECT_NEAR(clip_grad_norm(*optimizer, norm / 8) / norm, 1, 1e-4) << dtype;
    EXPECT_TRUE(w.grad().eq(512).all().item<bool>()) << dtype;
    optimizer->step();
  }
}

/// On one rank, too. An optimizer that is gone does not count.
TEST(StepWeight, AParameterOfTwoOptimizersIsAnError) {
  const at::Tensor p = ones({3}), a = ones({2}), b = ones({2});
  auto first = sgd({p, a}, world());
  first->zero_grad();
  auto second = sgd({b, p}, world());
  EXPECT_THAT([&] { second->zero_grad(); }, ThrowsMessage<UsageError>(HasSubstr("also another multi-node optimizer")));
  first.reset();
  second = sgd({b, p}, world());
  second->zero_grad();
  p.sum().backward();
  second->step();
  EXPECT_TRUE(p.eq(0).all().item<bool>());
}

/// In one group, and, on four ranks, in two groups of two.
TEST(StepWeight, OfExpertsIsThatOfTheLossesOfAllRanks) {
  const Comm alone = world()->split(world()->rank(), 0);
  const Comm group = world()->size() == 4 ? world()->split(world()->rank() / 2, world()->rank()) : world();
  for (const bool weighed : {false, true}) {
    for (const bool own_first : {false, true}) {
      Experts all(world(), own_first ? world() : group, {.loss_ranks = world()}), one(alone, alone, {});
      for (std::int64_t k = 0; k < 4; ++k) {
        all.step(k, weighed, own_first);
        one.step(k, weighed, own_first);
      }
      EXPECT_TRUE(torch::allclose(all.parameters(), one.parameters(), 1e-8, 1e-9))
          << weighed << own_first << all.parameters() - one.parameters();
    }
  }
}

/// Also on a rank whose own weight is right: the middle one of three weighs as the mean does.
TEST(StepWeight, AFaultOfOneRankIsTheSameErrorOnAll_from_2_ranks) {
  const int rank = world()->rank();
  for (const bool overlap : {false, true}) {
    const at::Tensor w = ones({2});
    const auto optimizer = sgd({w}, world(), 0, {.overlap = overlap});
    const auto step = [&](double weighed, double counted) {
      optimizer->zero_grad();
      optimizer->scale_loss(w.sum(), weighed).backward();
      optimizer->step(counted);
    };
    step(4, 4);
    EXPECT_THAT([&] { step(rank == 1 ? 3 : 4, 4); }, ThrowsMessage<ArgumentError>(HasSubstr("on rank 1, the losses")));
    step(4, 4);
    const auto assume = [&](double samples) {
      optimizer->zero_grad();
      all_reduce(world(), w * 1).sum().backward();
      optimizer->step(samples);
    };
    EXPECT_THAT([&] { assume(4 + rank); }, ThrowsMessage<ArgumentError>(HasSubstr("weigh differently in a step")));
    assume(2);
    step(4, 4);
  }
}

TEST(StepWeight, OfALossOfNoSamplesIsNotOne) {
  const at::Tensor w = ones({2});
  const auto optimizer = sgd({w}, world());
  optimizer->scale_loss(w.sum(), 0).backward();
  EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<ArgumentError>(HasSubstr("call step(samples)")));
  EXPECT_TRUE(w.eq(1).all().item<bool>()) << w;
}

TEST(StepWeight, OfLossesOfRanksThatAreNotNamedIsAnError_from_2_ranks) {
  for (const bool weighed : {false, true}) {
    Experts experts(world(), world(), {});
    EXPECT_THAT([&] { experts.step(0, weighed, true); },
                ThrowsMessage<UsageError>(HasSubstr("set OptimizerOptions::loss_ranks to a communicator")));
  }
}

/// Also on ranks whose own loss_ranks include all.
TEST(StepWeight, LossRanksWithoutARankOfTheOptimizerAreAnError_from_2_ranks) {
  const Comm alone = world()->split(world()->rank(), 0);
  for (const Comm& ranks : {alone, world()->rank() == 1 ? alone : world()}) {
    EXPECT_THAT([&] { (void)sgd({ones({2})}, world(), 1, {.loss_ranks = ranks}); },
                ThrowsMessage<UsageError>(HasSubstr("loss_ranks lacks a rank of this optimizer")));
  }
}

}  // namespace
}  // namespace mn
