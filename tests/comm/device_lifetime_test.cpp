// Resources and copies of communicators on GPUs: no stream, event or memory is left behind, no memory is freed while a
// collective works, and only buffers that are read are copied. The stand-in counts.
#include <gmock/gmock.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/machine.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::OnGpu;
using ::testing::ThrowsMessage;
using testing::two_pieces;

/// Numbers of live streams, events and allocations.
std::vector<std::size_t> alive() {
  const auto lock = stand_in::machine().lock();
  return {stand_in::machine().streams().size(), stand_in::machine().events(), stand_in::memory().count()};
}

TEST_F(OnGpu, CommunicatorsLeaveNothing) {
  const OnDevice<float> gradient(std::vector<float>(5001, 1.0F), device_);
  const auto before = alive();
  for (int cycle = 0; cycle < 3; ++cycle) {
    for (const std::string& backend : communicator_names(DeviceType::kCuda)) {
      pretend_nodes(backend == "single_node" ? 1 : 2);
      const auto comm = create(backend, {}, cycle == 1);
      comm->sum_gradients(two_pieces(gradient.view(), true), 1.0 / size_);
      comm->sum_gradients(two_pieces(gradient.view(), false), 1.0 / size_);
      comm->bcast(gradient.view());
      if (cycle == 2) comm->finalize();
    }
    EXPECT_EQ(alive(), before);
  }
}

TEST_F(OnGpu, AStreamThatCannotBeMadeLeavesNothing) {
  const auto before = alive();
  stand_in::fail_call("cudaStreamCreateWithPriority", 1);
  EXPECT_THROW(CudaStream(device_.index), CommError);
  EXPECT_EQ(alive(), before);
}

/// As after every error of NCCL, no rank waits forever in a call without all ranks.
TEST_F(OnGpu, AReductionThatCannotBeEnqueuedAbortsTheCommunicator_from_2_ranks) {
  const OnDevice<float> gradient(std::vector<float>(100, 1.0F), device_);
  const auto run = [&] {
    const auto comm = create("pure_nccl");
    const auto reduce = [&] { comm->sum_gradients(std::vector{gradient.view()}, 0.5); };
    stand_in::fail_call("ncclAllReduce", 1);
    EXPECT_THAT(reduce, ThrowsMessage<CommError>(AllOf(HasSubstr("of 400 bytes on rank"), HasSubstr(" failed: "))));
    reduce();
  };
  EXPECT_THAT(run, ThrowsMessage<CommError>(HasSubstr("aborted after an error")));
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A mean is a plain sum, as NCCL's fast ways need, and one kernel that multiplies by 1/n; a sum needs no kernel.
TEST_F(OnGpu, AMeanOfContiguousGradientsLaunchesOneKernel) {
  const auto comm = create("pure_nccl");
  const auto launches = [&](const auto& gradient, double scale) {
    const auto before = std::pair(stand_in::calls_of("cudaLaunchKernel"), stand_in::calls_of("ncclAllReduce"));
    comm->sum_gradients(two_pieces(gradient.view(), true), scale);
    EXPECT_EQ(stand_in::calls_of("ncclAllReduce"), before.second + 1);
    return stand_in::calls_of("cudaLaunchKernel") - before.first;
  };
  const auto wide = mine<float>(5001);
  EXPECT_EQ(launches(wide, 0.5), 1);
  expect_sums(wide, 0.5);
  const auto narrow = mine<BFloat16>(515);
  EXPECT_EQ(launches(narrow, 0.5), 1);
  expect_sums(narrow, 0.5);
  const auto sum = mine<float>(1000);
  EXPECT_EQ(launches(sum, 1), 0);
  expect_sums(sum, 1);
}

/// Freeing memory waits for the whole device, hence for a collective that the peer joins only after the messages.
TEST_F(OnGpu, MessagesDoNotWaitForACollective) {
  const auto comm = create("pure_nccl");
  const OnDevice<float> gradient(std::vector<float>(1001, 1.0F), device_);
  DeviceCollectives& collectives = *comm->device_collectives();
  const auto reduce = [&] {
    collectives.after(nullptr);
    collectives.sum_gradients(std::vector{gradient.view()}, 1.0);
  };
  std::vector<std::unique_ptr<OnDevice<float>>> buffers;  // freed at the end
  if (rank_ == 0) reduce();
  const auto exchange = [&](std::size_t count) {
    const std::vector<float> values(count, static_cast<float>(rank_));
    const OnDevice<float>& buffer = *buffers.emplace_back(std::make_unique<OnDevice<float>>(values, device_));
    if (rank_ == 0 && size_ > 1) comm->irecv(buffer.view(), 1).wait();
    if (rank_ == 1) comm->isend(buffer.view(), 0).wait();
    if (rank_ == 0 && size_ > 1) comm->send(buffer.view(), 1);
    if (rank_ == 1) comm->recv(buffer.view(), 0);
    EXPECT_TRUE(rank_ > 1 || buffer.get() == std::vector<float>(count, size_ > 1 ? 1.0F : 0.0F));
  };
  for (const std::size_t count : {10, 5000, 100'000}) exchange(count);
  if (rank_ > 0) reduce();
  collectives.wait();
  EXPECT_EQ(gradient.get(), std::vector<float>(1001, static_cast<float>(size_)));
}

TEST_F(OnGpu, RequestsMayOutliveTheirCommunicator) {
  const auto before = alive();
  {
    const OnDevice<float> sum(std::vector<float>(1001, 1.0F), device_);
    std::vector<Request> requests(3);
    {
      const auto comm = create("pure_nccl");
      for (Request& each : requests) each = comm->iallreduce(sum.view());
    }
    for (Request& each : requests) each.wait();
    EXPECT_EQ(sum.get(), std::vector<float>(1001, static_cast<float>(size_ * size_ * size_)));
  }
  EXPECT_EQ(alive(), before);
}

/// Exactly so many copies: one more fails.
TEST_F(OnGpu, WhatACallOnlyWritesIsNotCopiedBefore) {
  const auto comm = create("naive");
  const auto whole = mine<float>(static_cast<std::size_t>(size_) * 10);
  const auto part = mine<float>(10);
  const auto with_copies = [&](long most, auto call) {
    stand_in::fail_call("cudaMemcpyAsync", most + 1);
    EXPECT_NO_THROW(call());
    stand_in::fail_call("", 1);
  };
  const bool is_root = rank_ == 0;
  with_copies(1, [&] { comm->bcast(part.view(), 0); });
  with_copies(is_root ? 2 : 1, [&] { comm->gather(part.view(), whole.view(), 0); });
  with_copies(2, [&] { comm->allgather(part.view(), whole.view()); });
  with_copies(is_root ? 2 : 1, [&] { comm->scatter(whole.view(), part.view(), 0); });
  with_copies(2, [&] { comm->reduce_scatter(whole.view(), part.view()); });
  with_copies(2, [&] { comm->allreduce(part.view()); });
  if (size_ == 1) return;
  const int next = (rank_ + 1) % size_;
  const int before = (rank_ + size_ - 1) % size_;
  with_copies(2, [&] { comm->sendrecv(part.view(), next, whole.view().slice(0, 10), before); });
  with_copies(2, [&] {
    Request received = comm->irecv(part.view(), before);
    comm->isend(whole.view().slice(0, 10), next).wait();
    received.wait();
  });
}

}  // namespace
}  // namespace mn
