// Times of a profile on a device are those of its work: a rank waits for the rank whose device is late, and says so.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/cuda.hpp>
#include <mn/core/trace.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/test_device/streams.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

constexpr auto kLate = std::chrono::milliseconds(40);
constexpr int kTimedSteps = 6;

StepTimes times_of(bool overlap) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto comm = create_communicator("pure_nccl", MPI_COMM_WORLD,
                                        {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
  const toy::TestFolder folder(comm);
  const c10::Device device(comm->device());
  const auto net = std::make_shared<toy::ToyNet>(false);
  net->to(device);
  const auto trace = std::make_shared<Trace>();
  const std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(std::make_unique<FusedSgd>(net->parameters(), torch::optim::SGDOptions(0.1)), comm,
                                  {.overlap = overlap, .deterministic = true, .trace = trace});
  const at::Tensor x = torch::ones({4, 6}).to(device);
  const auto late_loss = [&](const Batch& batch, Summary&) {
    if (comm->rank() == 1) {
      test_device::enqueue(test_device::current_stream(device), "late", [] { std::this_thread::sleep_for(kLate); });
    }
    return net->forward(batch.data).square().mean();
  };
  Trainer trainer(comm, optimizer,
                  create_iterator(kTimedSteps,
                                  [&](auto, auto) {
                                    return Batch{x, {}, 4};
                                  }),
                  net, late_loss, {.epochs = 1, .out = folder.path() / "out", .trace = trace});
  StepTimes sum;
  trainer.extend("sum", Interval(1, "iteration"), [&](Trainer& here) {
    sum.compute_s += here.last_step().compute_s;
    sum.communication_s += here.last_step().communication_s;
  });
  EXPECT_EQ(trainer.run(), 0);
  return sum;
}

TEST(DeviceTimes, NameTheRankThatIsLate) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double late_s = kTimedSteps * std::chrono::duration<double>(kLate).count();
  for (const bool overlap : {false, true}) {
    const StepTimes sum = times_of(overlap);
    if (size == 1) continue;
    if (rank == 1) {
      EXPECT_GE(sum.compute_s, late_s) << overlap;
    } else {
      EXPECT_GE(sum.communication_s, 0.4 * late_s) << overlap;  // the rest, where this rank is slow itself
    }
  }
}

}  // namespace
}  // namespace mn
