// What travels when gradients are compressed, where compression is exact, and options that contradict each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using torch::optim::SGD;
using torch::optim::SGDOptions;
using toy::bytes_of;

class WireTest : public testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = toy::world();

  /// Parameters after some steps whose gradients are small whole numbers, as is their mean.
  std::string train(const OptimizerOptions& options) {
    auto p = torch::zeros({7, 11}).requires_grad_();
    auto q = torch::zeros({13}).requires_grad_();
    auto optimizer = create_multi_node_optimizer(
        std::make_unique<SGD>(std::vector<at::Tensor>{p, q}, SGDOptions(0.5).momentum(0.5)), comm_, options);
    for (int k = 1; k <= 6; ++k) {
      const int factor = k * (comm_->rank() + 1) * comm_->size();
      optimizer->zero_grad();
      ((p * torch::arange(77).view({7, 11}).remainder(5)).sum() * factor + q.sum() * factor).backward();
      optimizer->step();
    }
    optimizer->synchronize();
    return bytes_of({p, q});
  }
  std::uint64_t bytes_per_step(const CompressionOptions& compression, at::IntArrayRef shape = {100, 200}) {
    auto p = torch::zeros(shape).requires_grad_();
    auto q = torch::zeros({50}).requires_grad_();
    auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p, q}, SGDOptions(1)),
                                                 comm_, {.compression = compression});
    for (int k = 0; k < 3; ++k) {
      optimizer->zero_grad();
      (p.sum() + q.sum()).backward();
      optimizer->step();
    }
    return optimizer->bytes_sent() / 3;
  }
};

TEST_F(WireTest, CastingExactValuesChangesNoBit) {
  for (const bool overlap : {false, true}) {
    for (const auto kind : {Compression::kFp16, Compression::kBf16}) {
      EXPECT_EQ(train({.overlap = overlap, .compression = {.kind = kind}}), train({})) << static_cast<int>(kind);
    }
  }
}

TEST_F(WireTest, TopKOfEverythingChangesNoBit) {
  EXPECT_EQ(train({.compression = {.kind = Compression::kTopK, .density = 1}}), train({}));
}

TEST_F(WireTest, PowerSgdIsExactForMatricesOfItsRank) {
  const auto u = torch::arange(1, 31).to(torch::kFloat).view({30, 1});
  const auto v = torch::cos(torch::arange(40)).view({1, 40});
  const auto p = torch::zeros({30, 40}).requires_grad_();
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.compression = {.kind = Compression::kPowerSgd, .rank = 2}});
  (p * u.matmul(v)).sum().backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, -u.matmul(v), 1e-4, 1e-4)) << (p + u.matmul(v)).abs().max();
}

TEST_F(WireTest, BytesAreThoseThatTravel) {
  constexpr std::uint64_t kTail = (9 + 2) * 4;  // StepAgreement: weight, eight signals, two flags
  constexpr std::uint64_t kMore = kTail + 8;    // with the weight of the residuals
  const std::uint64_t some = comm_->size() > 1 ? 1 : 0;
  EXPECT_EQ(bytes_per_step({}), some * (20050 * 4 + kTail));
  EXPECT_EQ(bytes_per_step({.kind = Compression::kFp16}), some * (20050 * 2 + kMore));
  EXPECT_EQ(bytes_per_step({.kind = Compression::kBf16}), some * (20050 * 2 + kMore));
  EXPECT_EQ(bytes_per_step({.kind = Compression::kTopK, .density = 0.01}), some * (200 * 8 + 50 * 4 + kMore));
  EXPECT_EQ(bytes_per_step({.kind = Compression::kPowerSgd, .rank = 3}), some * (3 * 300 * 4 + 50 * 4 + kMore));
}

/// Factors of rank 2 have at most half of the elements of 8 x 8, but more than half of those of 8 x 7.
TEST_F(WireTest, PowerSgdLeavesMatricesWholeThatAreHardlyLargerThanTheirFactors) {
  const CompressionOptions compression = {.kind = Compression::kPowerSgd, .rank = 2};
  const std::uint64_t some = comm_->size() > 1 ? 4 : 0;
  const std::uint64_t whole = bytes_per_step({}, {8, 7});
  testing::internal::CaptureStderr();
  EXPECT_EQ(bytes_per_step(compression, {8, 7}), whole + 2 * some);
  const std::string said = testing::internal::GetCapturedStderr();
  if (comm_->rank() == 0 && some > 0) {
    EXPECT_THAT(said, HasSubstr("compression powersgd: 2 of 2 gradients (100 % of the elements) travel whole"));
  }
  EXPECT_EQ(bytes_per_step(compression, {8, 8}), whole + 2 * some - some * (8 * 7 - 2 * (8 + 8)));
}

TEST_F(WireTest, TrainersCheckpointsHoldIt) {
  const toy::TestFolder folder(comm_);
  toy::ToyOptions options = {.trainer = {.epochs = 2, .out = folder.path()},
                             .optimizer = {.compression = {.kind = Compression::kBf16}}};
  toy::ToyJob whole(comm_, options);
  EXPECT_EQ(whole.trainer->run(), 0);
  options.trainer.epochs = 1;
  toy::ToyJob first(comm_, options);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(folder.path() / "half");
  options.trainer.epochs = 2;
  toy::ToyJob second(comm_, options);
  EXPECT_TRUE(second.trainer->resume((folder.path() / "half").string()));
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_TRUE(second.weights().equal(whole.weights()));

  const auto alone = comm_->split(comm_->rank(), 0);  // another number of ranks
  toy::ToyJob fewer(alone, options);
  EXPECT_TRUE(fewer.trainer->resume((folder.path() / "half").string()));
  EXPECT_TRUE(fewer.weights().equal(first.weights()));
}

/// --compress may be given, changed or left out on resume: a residual that the checkpoint does not have is zero.
TEST_F(WireTest, AResumeMayCompressInAnotherWay) {
  const toy::TestFolder folder(comm_);
  for (const auto& [before, after] :
       {std::pair(Compression::kNone, Compression::kTopK), std::pair(Compression::kNone, Compression::kPowerSgd),
        std::pair(Compression::kBf16, Compression::kTopK), std::pair(Compression::kTopK, Compression::kNone)}) {
    toy::ToyOptions options = {.trainer = {.epochs = 1, .out = folder.path()},
                               .optimizer = {.compression = {.kind = before}}};
    toy::ToyJob first(comm_, options);
    EXPECT_EQ(first.trainer->run(), 0);
    first.trainer->save(folder.path() / "first");
    options.trainer.epochs = 2;
    options.optimizer.compression.kind = after;
    toy::ToyJob second(comm_, options);
    EXPECT_TRUE(second.trainer->resume((folder.path() / "first").string()));
    EXPECT_EQ(second.trainer->run(), 0);
    EXPECT_TRUE(toy::same_on_all(toy::bytes_of({second.weights()}), *comm_));
  }
}

TEST(OptimizerOptionsTest, ContradictionsAreUsageErrors) {
  const auto error_of = [](const OptimizerOptions& options) -> std::string {
    try {
      check_options(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({}), "no error");
  EXPECT_EQ(error_of({.overlap = true, .compression = {.kind = Compression::kFp16}}), "no error");
  EXPECT_THAT(error_of({.overlap = true, .double_buffering = true}), HasSubstr("exclude each other"));
  EXPECT_THAT(error_of({.overlap = true, .local_steps = 2}), HasSubstr("exclude overlap"));
  EXPECT_THAT(error_of({.double_buffering = true, .local_steps = 2}), HasSubstr("exclude double buffering"));
  EXPECT_THAT(error_of({.compression = {.kind = Compression::kTopK}, .local_steps = 2}),
              HasSubstr("exclude compression"));
  EXPECT_THAT(error_of({.outer_momentum = 0.5}), HasSubstr("local steps"));
  EXPECT_THAT(error_of({.local_steps = 4, .outer_momentum = 1}), HasSubstr("below 1"));
  EXPECT_THAT(error_of({.local_steps = 0}), HasSubstr("at least 1 step"));
  EXPECT_THAT(error_of({.compression = {.density = 0}}), HasSubstr("above 0"));
  EXPECT_THAT(error_of({.compression = {.rank = 0}}), HasSubstr("at least 1"));
  EXPECT_THROW(static_cast<void>(parse_compression("zip")), UsageError);
}

}  // namespace
}  // namespace mn
