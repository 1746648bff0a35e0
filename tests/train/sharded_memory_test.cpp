// Memory and bytes sent of sharded trainings, by count, and the account of them.
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/memory_report.hpp>
#include <mn/trainer/memory_account.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/support/resident_bytes.hpp"

namespace {

using mn::ModelBytes;
using mn::Shard;

/// Bytes of this process that no file backs. Memory that several processes share counts in equal parts.
std::int64_t own_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/smaps_rollup");
  std::int64_t bytes = 0;
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if ((word == "Pss_Anon:" || word == "Pss_Shmem:") && file >> kib) bytes += kib << 10;
  }
  return bytes;
}

struct Measured {
  double bytes_per_parameter = 0;     ///< mean over ranks
  double forward = 0;                 ///< bytes per parameter that are allocated in forward; mean over ranks
  std::int64_t grown_in_forward = 0;  ///< bytes of this process, with memory that malloc keeps
  double sent_per_parameter = 0;      ///< in a step
  ModelBytes model;
};

/// Trains 16 linear layers for two steps. Weights and biases are groups of the optimizer, as for weight decay.
Measured train(Shard what, const std::shared_ptr<mn::Communicator>& comm,
               std::optional<at::ScalarType> autocast = std::nullopt) {
  constexpr std::int64_t kWidth = 512;
  constexpr int kLayers = 16;
  std::int64_t before = own_bytes();
  torch::nn::Sequential net;
  for (int i = 0; i < kLayers; ++i) net->push_back(torch::nn::Linear(kWidth, kWidth));
  mn::name_tensors(*net);
  std::vector<at::Tensor> weights, biases;
  for (const at::Tensor& parameter : net->parameters()) (parameter.dim() > 1 ? weights : biases).push_back(parameter);
  const auto optimizer = mn::create_multi_node_optimizer(
      std::make_unique<mn::FusedAdamW>(std::vector<torch::optim::OptimizerParamGroup>{weights, biases},
                                       torch::optim::AdamWOptions(0.01)),
      comm, {.shard = {.what = what}});
  std::uint64_t sent = 0;
  std::int64_t forward = 0, grown_in_forward = 0;
  for (int step = 0; step < 2; ++step) {
    sent = optimizer->bytes_sent();
    optimizer->zero_grad();
    forward = -own_bytes();
    grown_in_forward = -mn::test::resident_bytes();
    at::Tensor loss;
    {
      const mn::AutocastScope scope(autocast, comm->device());
      loss = net->forward(torch::ones({1, kWidth})).sum().to(at::kFloat);
    }
    grown_in_forward += mn::test::resident_bytes();
    forward += own_bytes();
    optimizer->scale_loss(loss, 1).backward();
    optimizer->step(1);
  }
  std::int64_t grown = own_bytes() - before;
  comm->allreduce(std::span(&grown, 1));
  comm->allreduce(std::span(&forward, 1));
  const double parameters = (kWidth + 1) * kWidth * kLayers;
  return {static_cast<double>(grown) / parameters / comm->size(),
          static_cast<double>(forward) / parameters / comm->size(), grown_in_forward,
          static_cast<double>(optimizer->bytes_sent() - sent) / parameters, mn::model_bytes(*optimizer, autocast)};
}

TEST(ShardedMemory, IsTheAccountAndTwoUnits) {
  const auto comm = mn::create_communicator("auto");
  static_cast<void>(train(Shard::kNone, comm));  // libraries allocate their own memory
  for (const Shard what : {Shard::kOptimizer, Shard::kGradients, Shard::kParameters}) {
    const Measured measured = train(what, comm);
    const double parameters = static_cast<double>(measured.model.parameters) / sizeof(float);
    const double expected = static_cast<double>(mn::memory_account(measured.model, what, comm->size()).total());
    EXPECT_LT(measured.bytes_per_parameter, 1.02 * expected / parameters + 0.1) << mn::shard_name(what);
    EXPECT_GT(measured.bytes_per_parameter, 0.6 * expected / parameters) << mn::shard_name(what);
  }
}

TEST(ShardedMemory, BytesSentAreCounted_from_2_ranks) {
  const auto comm = mn::create_communicator("auto");
  EXPECT_NEAR(train(Shard::kNone, comm).sent_per_parameter, 4, 1e-4);  // weights and flags, too
  constexpr double kPadding = 0.01;
  EXPECT_NEAR(train(Shard::kOptimizer, comm).sent_per_parameter, 8, kPadding);
  EXPECT_NEAR(train(Shard::kGradients, comm).sent_per_parameter, 8, kPadding);
  // The last unit of forward is the first of backward, and backward does not use the first unit.
  EXPECT_NEAR(train(Shard::kParameters, comm).sent_per_parameter, 12 - 2 * 4.0 / 16, kPadding);
}

/// Ranks gather autocast's copies, not the float32 parameters, and keep the copies of two units from forward.
TEST(ShardedMemory, HoldsAndSendsCopiesOfTwoUnits) {
  const auto comm = mn::create_communicator("auto");
  static_cast<void>(train(Shard::kParameters, comm, at::kBFloat16));  // libraries allocate their own memory
  const Measured measured = train(Shard::kParameters, comm, at::kBFloat16);
  EXPECT_LT(measured.forward, 2 * 2.0 / 16 + 0.1);
  const double reduced = 4;
  EXPECT_NEAR(measured.sent_per_parameter, reduced + 4 - 2 * 2.0 / 16, 0.01);
  constexpr std::uint64_t kWidth = 512;  // a unit is a layer
  const mn::MemoryAccount account = mn::memory_account(measured.model, Shard::kParameters, comm->size());
  EXPECT_EQ(account.gathered, 2 * (kWidth * kWidth * 2 + kWidth * 4));
  EXPECT_EQ(account.buffers, 2 * (kWidth + 1) * kWidth * 4);
}

/// Jobs let malloc keep freed memory. Activations would then lie where freed units lay, and each unit need new memory.
TEST(ShardedMemory, UnitsUseTheirMemoryAgain_from_2_ranks) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  EXPECT_LT(train(Shard::kParameters, mn::create_communicator("auto")).grown_in_forward, 6 << 20);  // of 16 MiB
}

TEST(MemoryAccount, DividesWhatTheRanksShare_on_1_rank) {
  const ModelBytes model = {
      .parameters = 400, .gradients = 400, .optimizer = 800, .largest_unit = 10, .gathered_unit = 10};
  EXPECT_EQ(mn::memory_account(model, Shard::kNone, 4).total(), 1600U);
  EXPECT_EQ(mn::memory_account(model, Shard::kOptimizer, 4).total(), 800U + 200);
  EXPECT_EQ(mn::memory_account(model, Shard::kGradients, 4).total(), 400U + 300 + 20);
  EXPECT_EQ(mn::memory_account(model, Shard::kParameters, 4).total(), 400U + 40);
  EXPECT_EQ(mn::memory_account(model, Shard::kParameters, 3).parameters, 134U);  // the largest share
}

TEST(MemoryAccount, NamesTheLargestPartsAndWhatHelps_on_1_rank) {
  const ModelBytes model = {
      .parameters = 4096, .gradients = 4096, .optimizer = 8192, .largest_unit = 10, .gathered_unit = 10};
  const std::string advice = mn::memory_advice(mn::memory_account(model, Shard::kNone, 4), Shard::kNone);
  EXPECT_NE(advice.find("optimizer (8.0 KiB) and parameters (4.0 KiB)"), std::string::npos) << advice;
  EXPECT_NE(advice.find("; use --shard optimizer"), std::string::npos) << advice;
  const std::string table = mn::memory_table(model, Shard::kGradients, 4, 0);
  EXPECT_NE(table.find("> 4 ranks, --shard gradients"), std::string::npos) << table;
  EXPECT_NE(table.find("  512 ranks, --shard parameters"), std::string::npos) << table;
}

}  // namespace
