// Failures on one rank's GPU leave no rank waiting forever.
#include <chrono>
#include <memory>
#include <stdexcept>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/nccl/nccl.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::OnGpu;
using ::testing::ThrowsMessage;
using testing::two_pieces;

/// Only rank 0 joins a collective, then all ranks leave it behind.
class Abandoned : public OnGpu, public ::testing::WithParamInterface<bool> {
 protected:
  void join_alone(Communicator& comm, BufferView whole) const {
    if (rank_ > 0) return;
    DeviceCollectives& collectives = *comm.device_collectives();
    collectives.after(nullptr);
    collectives.sum_gradients(two_pieces(whole, GetParam()), 0.5);
  }
  [[noreturn]] static void leave() { throw std::runtime_error("this rank has had enough"); }
};

TEST_P(Abandoned, CollectivesEndWithTheirCommunicator) {
  const OnDevice<float> gradient(std::vector<float>(1001, 1.0F), device_);
  const auto run = [&] {
    const auto comm = create("pure_nccl");
    join_alone(*comm, gradient.view());
    leave();
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "nothing of it is left on the device";
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Memory is freed, and another communicator destroyed, before the communicator with the collective.
TEST_P(Abandoned, CollectivesHoldUpNoDestructor) {
  const OnDevice<float> gradient(std::vector<float>(1001, 1.0F), device_);
  const auto run = [&] {
    const auto comm = create("pure_nccl");
    const auto other = create("pure_nccl");
    other->sum_gradients(two_pieces(gradient.view(), GetParam()), 0.5);
    const OnDevice<float> memory(std::vector<float>(1001, 1.0F), device_);
    const auto pinned = comm->allocate(1000);
    join_alone(*comm, gradient.view());
    leave();
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Abandoned, ::testing::Values(true, false),
                         [](const auto& test) { return test.param ? "in_order" : "packed"; });

class LeftAlone : public OnGpu {
 protected:
  /// A communicator that waits for a second.
  [[nodiscard]] std::shared_ptr<Communicator> create_impatient() const {
    setenv("MN_NCCL_TIMEOUT", "1", 1);
    auto comm = create("pure_nccl");
    unsetenv("MN_NCCL_TIMEOUT");
    return comm;
  }
  /// All ranks but the first leave it at once.
  [[nodiscard]] std::shared_ptr<Communicator> create_and_leave() const {
    auto comm = create_impatient();
    if (rank_ > 0) throw std::runtime_error("this rank has had enough");
    return comm;
  }
};

/// The remaining ranks keep their communicator, and NCCL sees no loss.
TEST_F(LeftAlone, ACollectiveThatNobodyJoinsTimesOut_from_2_ranks) {
  const auto gradient = mine<float>(1001);
  const auto leave = [&] {
    const auto comm = create_impatient();
    if (rank_ == 0) {
      EXPECT_THAT([&] { comm->allreduce(gradient.view()); },
                  ThrowsMessage<CommError>(AllOf(HasSubstr("NCCL allreduce of 4004 bytes on rank 0 of"),
                                                 HasSubstr("has not ended in 1 s"), HasSubstr("MN_NCCL_TIMEOUT"))));
      EXPECT_THROW(comm->allreduce(gradient.view()), CommError) << "once aborted, always aborted";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    throw std::runtime_error("it is over");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A program waits for its own stream, as to read a loss: the wait ends, and the next call throws the reason.
TEST_F(LeftAlone, WorkThatNobodyWaitsForIsWatched_from_2_ranks) {
  const auto gradient = mine<float>(1001);
  const auto leave = [&] {
    const auto comm = create_and_leave();
    DeviceCollectives& collectives = *comm->device_collectives();
    collectives.after(nullptr);
    collectives.allreduce(gradient.view(), ReduceOp::kSum);
    collectives.join(nullptr);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_THAT([&] { collectives.allreduce(gradient.view(), ReduceOp::kSum); },
                ThrowsMessage<CommError>(HasSubstr("NCCL allreduce of 4004 bytes on rank 0 of")));
    throw std::runtime_error("it is over");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The communicator's destructor waits no longer either.
TEST_F(LeftAlone, TheEndWaitsForNoOneWhoDoesNotCome_from_2_ranks) {
  const auto gradient = mine<float>(1001);
  const CudaStream stream(device_.index);
  setenv("MN_NCCL_TIMEOUT", "1", 1);
  auto nccl = std::make_unique<Nccl>(MPI_COMM_WORLD, device_);
  unsetenv("MN_NCCL_TIMEOUT");
  if (rank_ == 0) {
    nccl->allreduce(gradient.view(), ReduceOp::kSum, stream);
    nccl->watch(stream);
    nccl.reset();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  nccl.reset();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Work that is enqueued while earlier work is watched is watched too.
TEST_F(LeftAlone, LaterWorkIsWatchedToo_from_2_ranks) {
  const auto gradient = mine<float>(1001);
  const auto leave = [&] {
    const auto comm = create_impatient();
    DeviceCollectives& collectives = *comm->device_collectives();
    collectives.after(nullptr);
    collectives.allreduce(gradient.view(), ReduceOp::kSum);
    collectives.join(nullptr);
    if (rank_ == 0) {
      collectives.allreduce(gradient.view(), ReduceOp::kSum);
      collectives.join(nullptr);
    }
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    throw std::runtime_error("it is over");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The time-out of calls names the missing ranks, on each backend for GPUs.
TEST_F(OnGpu, ACallOfTheDeviceNamesWhoIsMissing_from_2_ranks) {
  const auto gradient = mine<float>(1001);
  for (const std::string& backend : communicator_names(DeviceType::kCuda)) {
    const auto comm = create(backend);
    comm->allreduce(gradient.view());
    const CallTimeout limit(*comm, std::chrono::milliseconds(500));
    if (rank_ < size_ - 1) {
      EXPECT_THAT([&] { comm->allreduce(gradient.view()); },
                  ThrowsMessage<CommError>(AllOf(HasSubstr("allreduce of 1001 float32, call 2"),
                                                 HasSubstr(std::to_string(size_ - 1)), HasSubstr("not joined it"))))
          << backend;
      EXPECT_THROW(comm->barrier(), CommError);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(OnGpu, AWrongTimeoutIsNamed) {
  setenv("MN_NCCL_TIMEOUT", "-1", 1);
  EXPECT_THROW(create("pure_nccl"), UsageError);
  setenv("MN_NCCL_TIMEOUT", "soon", 1);
  EXPECT_THROW(create("pure_nccl"), UsageError);
  unsetenv("MN_NCCL_TIMEOUT");
}

/// A graph may outlive the communicator of the graph's operations.
TEST_F(OnGpu, AnAbortDoesNotWaitForGraphs_on_2_ranks) {
  const auto gradient = mine<float>(1001);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const auto leave = [&] {
    const auto comm = create("pure_nccl");
    DeviceCollectives& collectives = *comm->device_collectives();
    comm->allreduce(gradient.view());
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    collectives.after(stream);
    collectives.allreduce(gradient.view(), ReduceOp::kSum);
    collectives.join(stream);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
    throw std::runtime_error("this rank has had enough");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The check of a kernel's launch finds no error that was reported before.
TEST_F(OnGpu, ReportedErrorsAreForgotten) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  const auto comm = create("pure_nccl");
  const auto gradient = mine<float>(1001);
  const auto reduce = [&] { comm->sum_gradients(two_pieces(gradient.view(), false), 1.0); };
  EXPECT_THROW(static_cast<void>(cuda_allocate(kTooMuch)), CommError);
  EXPECT_NO_THROW(reduce());
  EXPECT_THROW(static_cast<void>(cuda_allocate_pinned(kTooMuch)), CommError);
  EXPECT_NO_THROW(reduce());
  EXPECT_THROW(cuda_set_device(cuda_device_count()), UsageError);
  EXPECT_NO_THROW(reduce());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace mn
