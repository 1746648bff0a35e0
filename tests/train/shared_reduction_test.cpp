// Announced steps: what ranks reduce in place during backward, each other's gradients or buckets of their own, and what
// they may not.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;

constexpr int kSize = 40001;
constexpr std::int64_t kSamples = 4;

/// With overlap and without. Two parameters; backward reaches `second_` first. One step without a promise makes the
/// number of samples known, one with it shows that no backward runs inside another.
class AnnouncedStep : public ::testing::TestWithParam<bool> {
 protected:
  AnnouncedStep() {
    for (const bool announced : {false, true}) {
      optimizer_->zero_grad();
      if (announced) optimizer_->announce_step(kSamples);
      backward(0);
      optimizer_->step(kSamples);
    }
    optimizer_->zero_grad();
  }

  /// `between` runs when the gradient of `second_` is there and that of `first_` is not.
  void backward(double gradient, const std::function<void()>& between = {}) {
    at::Tensor early = first_ * 1;
    if (between) {
      early.register_hook([&](const at::Tensor& g) {
        between();
        return g;
      });
    }
    (early.sum() * gradient + (second_ * 1).sum() * gradient).backward();
  }
  void expect_both(double value) {
    for (const auto& parameter : {first_, second_}) {
      EXPECT_TRUE(parameter.equal(torch::full({kSize}, value))) << parameter[0] << " instead of " << value;
    }
  }

  std::shared_ptr<Communicator> comm_ = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  double rank_ = comm_->rank();
  double mean_ = (comm_->size() + 1) / 2.0;  // of rank + 1
  at::Tensor first_ = torch::zeros({kSize}).requires_grad_();
  at::Tensor second_ = torch::zeros({kSize}).requires_grad_();
  std::unique_ptr<MultiNodeOptimizer> optimizer_ =
      create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{first_, second_}, SGDOptions(1)), comm_,
                                  {.overlap = GetParam(), .deterministic = true, .bucket_bytes = 16});
};

/// Rank 0's backward does not end before the others have reduced the gradients that it has finished.
TEST_P(AnnouncedStep, RanksThatWaitReduceWhatBackwardHas_from_2_ranks) {
  for (int step = 1; step <= 3; ++step) {
    bool reduced = false;
    optimizer_->announce_step(kSamples);
    backward(rank_ + 1, [&] {
      if (comm_->rank() != 0) return;
      const auto* gradients = static_cast<const volatile float*>(second_.grad().data_ptr());
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      const auto mean = static_cast<float>(mean_);
      while (!reduced && std::chrono::steady_clock::now() < end) {
        reduced = gradients[0] == mean && gradients[kSize - 1] == mean;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    EXPECT_TRUE(reduced || comm_->rank() != 0);
    optimizer_->step(kSamples);
    optimizer_->zero_grad();
    expect_both(-step * mean_);
  }
}

TEST_P(AnnouncedStep, OfOtherSamplesThanTheFirstIsWeighed) {
  const std::int64_t samples = comm_->rank() == 0 ? kSamples : 1;
  optimizer_->announce_step(samples);
  backward(rank_ + 1);
  optimizer_->step(samples);
  double sum = 0;
  for (int r = 0; r < comm_->size(); ++r) sum += (r + 1) * (r == 0 ? kSamples : 1);
  const double total = kSamples + comm_->size() - 1;
  EXPECT_TRUE(first_.allclose(torch::full({kSize}, -sum / total)));
  EXPECT_TRUE(second_.allclose(torch::full({kSize}, -sum / total)));
}

TEST_P(AnnouncedStep, BindsNoOther) {
  for (int step = 1; step <= 2; ++step) {
    optimizer_->announce_step(kSamples);
    backward(rank_ + 1);
    optimizer_->step(kSamples);
    optimizer_->zero_grad();
    backward(rank_);
    backward(1);
    optimizer_->step(kSamples);
    optimizer_->zero_grad();
    expect_both(-2 * step * mean_);
  }
}

/// As where a minibatch is left out.
TEST_P(AnnouncedStep, IsForgottenByZeroGrad) {
  optimizer_->announce_step(kSamples);
  optimizer_->zero_grad();
  backward(rank_);
  backward(1);
  optimizer_->step(kSamples);
  expect_both(-mean_);
}

TEST_P(AnnouncedStep, MayFindGradientsOutsideTheBuffer) {
  optimizer_->announce_step(kSamples);
  const auto half_square = [&](const at::Tensor& x) { return ((x + 1) * (x + 1)).sum() * ((rank_ + 1) / 2); };
  (half_square(first_) + half_square(second_)).backward({}, std::nullopt, /*create_graph=*/true);
  EXPECT_TRUE(second_.grad().requires_grad());
  optimizer_->step(kSamples);
  expect_both(-mean_);
}

TEST_P(AnnouncedStep, MayHaveAnyWeight) {
  for (const std::int64_t samples : {kSamples / 2, 3 * kSamples}) {
    const double before = first_[0].item<double>();
    optimizer_->announce_step(samples);
    backward(rank_ + 1);
    optimizer_->step(samples);
    optimizer_->zero_grad();
    expect_both(before - mean_);
  }
}

/// Between zero_grad() and the announcement.
TEST_P(AnnouncedStep, FindsParametersThatWereFrozenOrUnfrozen) {
  for (const bool trained : {false, true}) {
    second_.requires_grad_(trained);
    optimizer_->announce_step(kSamples);
    backward(rank_ + 1);
    optimizer_->step(kSamples);
    optimizer_->zero_grad();
  }
  EXPECT_TRUE(first_.equal(torch::full({kSize}, -2 * mean_))) << first_[0];
  EXPECT_TRUE(second_.equal(torch::full({kSize}, -mean_))) << second_[0];
}

TEST_P(AnnouncedStep, SendsNothingUnderNoSync) {
  optimizer_->announce_step(kSamples);
  {
    const auto token = optimizer_->no_sync();
    backward(1);
  }
  backward(rank_);
  optimizer_->step(kSamples);
  expect_both(-mean_);
}

TEST_P(AnnouncedStep, AParameterWithoutAGradientCountsAsZero) {
  optimizer_->announce_step(kSamples);
  backward(1);  // and leaves something in the buffer
  optimizer_->step(kSamples);
  optimizer_->zero_grad();
  optimizer_->announce_step(kSamples);
  if (comm_->rank() == 0) {
    (first_ * 1).sum().backward();
  } else {
    backward(1);
  }
  optimizer_->step(kSamples);
  const double ranks = comm_->size();
  EXPECT_TRUE(first_.allclose(torch::full({kSize}, -2.0)));
  EXPECT_TRUE(second_.allclose(torch::full({kSize}, -1 - (ranks - 1) / ranks)));
}

class BrokenPromise : public AnnouncedStep {
 protected:
  void expect_error(const std::function<void()>& call, const char* what) {
    EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr(what)));
  }
};

TEST_P(BrokenPromise, ByASecondBackward_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  backward(1);
  expect_error([&] { optimizer_->step(kSamples); }, "parameter 1 changed after that backward");
}

TEST_P(BrokenPromise, ByAnotherGradient_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  first_.mutable_grad() = torch::ones({kSize});
  expect_error([&] { optimizer_->step(kSamples); }, "parameter 0 changed after that backward");
}

TEST_P(BrokenPromise, ByOtherSamples_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  expect_error([&] { optimizer_->step(kSamples - 1); }, "the step counts other samples");
}

/// Losses that carry their weight have the same factor whatever the step counts.
TEST_P(BrokenPromise, ByOtherSamplesThanTheLosses_from_2_ranks) {
  const at::Tensor loss = optimizer_->scale_loss(first_.sum() + second_.sum(), kSamples);
  optimizer_->announce_step(kSamples - 1);
  loss.backward();
  expect_error([&] { optimizer_->step(kSamples); }, "the step counts other samples");
}

/// Gradients that have been weighed can't take another's.
TEST_P(BrokenPromise, ByASecondBackwardOfAnotherWeight_from_2_ranks) {
  optimizer_->announce_step(2 * kSamples);
  backward(1);
  backward(1);
  expect_error([&] { optimizer_->step(2 * kSamples); }, "a second backward came after that one");
}

TEST_P(BrokenPromise, ByAnotherSetOfParameters_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  second_.requires_grad_(false);
  expect_error([&] { optimizer_->step(kSamples); }, "frozen or unfrozen before that step");
}

TEST_P(BrokenPromise, OfOneRankIsTheSameErrorOnAll_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  expect_error([&] { optimizer_->step(rank_ == 1 ? kSamples - 1 : kSamples); }, "on rank 1, announce_step() promised");
  optimizer_->zero_grad();
  optimizer_->announce_step(kSamples);
  backward(1);
  optimizer_->step(kSamples);
}

TEST_P(BrokenPromise, ByNoStep_from_2_ranks) {
  optimizer_->announce_step(kSamples);
  backward(1);
  expect_error([&] { optimizer_->zero_grad(); }, "zero_grad() came before that step");
}

const auto kWays = testing::Bool();
std::string way_name(const testing::TestParamInfo<bool>& way) { return way.param ? "Overlap" : "Shared"; }
INSTANTIATE_TEST_SUITE_P(Ways, AnnouncedStep, kWays, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, BrokenPromise, kWays, way_name);

}  // namespace
}  // namespace mn
