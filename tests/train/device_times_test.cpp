// Times of a profile on a device are those of its work: a rank waits for the rank whose device is late, and says so.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/trace.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/test_device/streams.hpp"
#include "tests/support/test_device/test_device.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

constexpr auto kLate = std::chrono::milliseconds(40);
constexpr int kTimedSteps = 6;
constexpr int kFirstTrained = 2;  // steps that may still make buffers

/// What a training of a few steps measures, in which rank 1's device is late in each.
struct Measured {
  StepTimes times;
  std::vector<Trace::Span> spans;  // "reduce gradients"
  std::vector<test_device::HostWait> waits;
};

StepTimes sum_of_last_steps(Trainer& trainer, std::vector<test_device::HostWait>& waits) {
  StepTimes sum;
  trainer.extend("waits", Interval(1, "iteration"), [&](Trainer& here) {
    const auto found = test_device::take_host_waits();
    if (here.iteration() > kFirstTrained && here.iteration() < kTimedSteps) {  // the epoch's last one synchronizes
      waits.insert(waits.end(), found.begin(), found.end());
    }
  });
  trainer.extend("sum", Interval(1, "iteration"), [&](Trainer& here) {
    sum.compute_s += here.last_step().compute_s;
    sum.communication_s += here.last_step().communication_s;
  });
  EXPECT_EQ(trainer.run(), 0);
  return sum;
}

Measured train(bool overlap, const std::shared_ptr<Trace>& trace) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto comm = create_communicator("pure_nccl", MPI_COMM_WORLD,
                                        {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
  const toy::TestFolder folder(comm);
  const c10::Device device(comm->device());
  const auto net = std::make_shared<toy::ToyNet>(false);
  net->to(device);
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
  Measured measured;
  measured.times = sum_of_last_steps(trainer, measured.waits);
  if (!trace) measured.times = trainer.times();
  if (trace) measured.spans = trace->take();
  std::erase_if(measured.spans, [](const auto& span) { return span.name != std::string("reduce gradients"); });
  return measured;
}

class DeviceTimes : public ::testing::TestWithParam<bool> {
 protected:
  DeviceTimes() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  /// Rank 1 computes, and the others wait for it.
  void expect_late_rank(const StepTimes& times) const {
    if (size_ == 1) return;
    if (rank_ == 1) {
      EXPECT_GE(times.compute_s, kLate_s);
    } else {
      EXPECT_GE(times.communication_s, 0.4 * kLate_s);  // the rest, where this rank is slow itself
    }
  }

  static constexpr double kLate_s = kTimedSteps * std::chrono::duration<double>(kLate).count();
  int rank_ = 0;
  int size_ = 1;
};

TEST_P(DeviceTimes, NameTheRankThatIsLate) {
  const auto begin = Trace::Clock::now();
  const Measured measured = train(GetParam(), std::make_shared<Trace>());
  expect_late_rank(measured.times);
  std::chrono::duration<double> reduced{};
  for (const Trace::Span& span : measured.spans) {
    EXPECT_GT(span.begin, begin);
    EXPECT_LE(span.begin, span.end);
    EXPECT_LT(span.end, Trace::Clock::now());
    reduced += span.end - span.begin;
  }
  EXPECT_GE(std::ssize(measured.spans), kTimedSteps);
  // Without overlap the hosts agree before a reduction, and a trace's wait makes rank 1's host late.
  EXPECT_TRUE(!GetParam() || size_ == 1 || rank_ == 1 || reduced.count() >= 0.4 * kLate_s) << reduced.count();
}

TEST_P(DeviceTimes, NeedNoTraceAndNoWait) {
  Measured measured = train(GetParam(), nullptr);
  expect_late_rank(measured.times);
  std::erase_if(measured.waits, [](const auto& wait) {
    return test_device::describe({wait}).find("run_watch") != std::string::npos;  // the thread that watches NCCL
  });
  EXPECT_TRUE(measured.waits.empty()) << test_device::describe(measured.waits);
}

INSTANTIATE_TEST_SUITE_P(Ways, DeviceTimes, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "overlap" : "direct"; });

/// More spans than are kept, and one that is open while the sum is read.
TEST(DeviceTimer, CountsSpansThatItDoesNotKeep) {
  const Device here{DeviceType::kCuda, 0};
  cuda_set_device(0);
  DeviceTimer timer(here);
  const auto pause = [&](int us) {
    test_device::enqueue(current_stream(here), "pause",
                         [us] { std::this_thread::sleep_for(std::chrono::microseconds(us)); });
  };
  const auto span = [&](int us) {
    timer.begin();
    pause(us);
    timer.end();
  };
  EXPECT_EQ(timer.seconds(), 0);
  constexpr auto kSpans = 2 * DeviceTimer::kSpans;
  for (std::size_t i = 0; i < kSpans; ++i) span(500);
  timer.begin();
  const double first = timer.seconds();
  EXPECT_GE(first, 500e-6 * kSpans);  // those that are kept take half of it
  EXPECT_EQ(timer.seconds(), first);
  pause(20'000);
  timer.end();
  pause(500'000);
  EXPECT_GE(timer.seconds(), first + 0.02);
  EXPECT_LT(timer.seconds(), first + 0.5);
  timer.end();  // without a begin
  EXPECT_LT(timer.seconds(), first + 0.5);
}

}  // namespace
}  // namespace mn
