// Backends with buffers on GPUs: every call, and every way to average gradients.
#include <cmath>

#include <cuda_runtime_api.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"

namespace mn {
namespace {

using testing::filled;
using testing::OnDevice;
using testing::OnGpu;
using testing::pattern;

TEST_F(OnGpu, AutoPicksPureNccl) { EXPECT_EQ(create("auto")->name(), "pure_nccl"); }

TEST_F(OnGpu, AllreduceOfEveryTypeAndSize) {
  const auto comm = create("pure_nccl");
  testing::for_each_type([&]<class T>() {
    for (const std::size_t count : testing::kOddSizes) {
      const auto buffer = mine<T>(count);
      comm->allreduce(buffer.view());
      expect_sums(buffer, 1);
    }
  });
  const auto largest = mine<float>(100);
  comm->allreduce(largest.view(), ReduceOp::kMax);
  const auto values = largest.get();
  for (std::size_t i = 0; i < values.size(); ++i) {
    int most = 0;
    for (int r = 0; r < size_; ++r) most = std::max(most, pattern(r, i));
    EXPECT_EQ(values[i], static_cast<float>(most));
  }
}

TEST_F(OnGpu, OtherCollectives) {
  const auto comm = create("pure_nccl");
  const auto ranks = static_cast<std::size_t>(size_);
  constexpr std::size_t kPart = 1027;
  const auto theirs = mine<std::int32_t>(kPart);
  comm->bcast(theirs.view(), size_ - 1);
  EXPECT_EQ(theirs.get(), filled<std::int32_t>(kPart, [&](std::size_t i) { return pattern(size_ - 1, i); }));

  const auto part = mine<std::int32_t>(kPart);
  const auto whole = mine<std::int32_t>(kPart * ranks);
  comm->allgather(part.view(), whole.view());
  const auto by_rank = [&](std::size_t i) { return pattern(static_cast<int>(i / kPart), i % kPart); };
  EXPECT_EQ(whole.get(), filled<std::int32_t>(kPart * ranks, by_rank));

  const auto send = mine<std::int32_t>(kPart * ranks);
  comm->alltoall(send.view(), whole.view());
  const auto from_rank = [&](std::size_t i) {
    return pattern(static_cast<int>(i / kPart), static_cast<std::size_t>(rank_) * kPart + i % kPart);
  };
  EXPECT_EQ(whole.get(), filled<std::int32_t>(kPart * ranks, from_rank));

  comm->reduce_scatter(send.view(), part.view());
  const auto summed = [&](std::size_t i) {
    return static_cast<int>(sum_at(static_cast<std::size_t>(rank_) * kPart + i));
  };
  EXPECT_EQ(part.get(), filled<std::int32_t>(kPart, summed));

  comm->alltoall(send.view(), send.view());  // in place: through the host
  EXPECT_EQ(send.get(), filled<std::int32_t>(kPart * ranks, from_rank));
}

/// Every way to average gradients on GPUs, on one node and on several.
struct Way {
  const char* backend;
  int nodes;  ///< rank r is on node r % nodes
};

class GradientsOnGpu : public OnGpu, public ::testing::WithParamInterface<Way> {
 protected:
  GradientsOnGpu() { pretend_nodes(GetParam().nodes); }
};

TEST_P(GradientsOnGpu, FlatScatteredMixedAndEmpty) {
  const auto comm = create(GetParam().backend);
  const auto flat = mine<float>(5001);
  comm->sum_gradients(std::vector{flat.view().slice(0, 1), flat.view().slice(1, 3000), flat.view().slice(3001, 0),
                                  flat.view().slice(3001, 2000)},
                      0.5);
  expect_sums(flat, 0.5);
  const auto a = mine<float>(1027);
  const auto b = mine<Float16>(7);
  const auto c = mine<float>(33);
  const auto d = mine<BFloat16>(515);
  const auto e = mine<double>(3);
  comm->sum_gradients(std::vector{a.view(), b.view(), c.view(), d.view(), e.view()}, 0.5);
  expect_sums(a, 0.5);
  expect_sums(b, 0.5);
  expect_sums(c, 0.5);
  expect_sums(d, 0.5);
  expect_sums(e, 0.5);
  comm->sum_gradients(std::span<const BufferView>(), 1.0);
  const auto large = mine<float>(5'000'001);  // several pieces through the host, and an odd rest
  comm->sum_gradients(std::vector{large.view()}, 1.0);
  expect_sums(large, 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, GradientsOnGpu,
                         ::testing::Values(Way{"pure_nccl", 1}, Way{"pure_nccl", 2}, Way{"hierarchical", 1},
                                           Way{"hierarchical", 2}, Way{"non_cuda_aware", 2}, Way{"two_dimensional", 1},
                                           Way{"two_dimensional", 2}, Way{"single_node", 1}, Way{"flat", 2}),
                         [](const auto& test) {
                           return test.param.backend + std::string("_") + std::to_string(test.param.nodes);
                         });

TEST_F(OnGpu, GradientsTravelAsHalves) {
  for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
    const auto comm = create("pure_nccl", wire);
    const auto a = mine<float>(1027);
    const auto b = mine<double>(515);
    comm->sum_gradients(std::vector{a.view(), b.view()}, 0.5);
    expect_sums(a, 0.5);
    expect_sums(b, 0.5);
  }
}

TEST_F(OnGpu, AllreduceGradDtypeNeedsNccl) { EXPECT_THROW(create("flat", DType::kFloat16), UsageError); }

TEST_F(OnGpu, SharedGpusAreRefusedBeforeNcclStarts_from_2_ranks) {
  unsetenv("NCCL_HOSTID");
  if (cuda_device_count() >= size_) GTEST_SKIP() << "every rank has a GPU of its own";
  EXPECT_THROW(create("pure_nccl"), UsageError);
  EXPECT_EQ(create("auto")->name(), "flat");
}

TEST_F(OnGpu, SplitsMakeCommunicatorsOfTheirOwn) {
  const auto comm = create("pure_nccl");
  const auto half = comm->split(rank_ % 2, rank_);
  const auto buffer = mine<float>(99);
  half->allreduce(buffer.view());
  const auto values = buffer.get();
  for (std::size_t i = 0; i < values.size(); ++i) {
    int sum = 0;
    for (int r = rank_ % 2; r < size_; r += 2) sum += pattern(r, i);
    EXPECT_EQ(values[i], static_cast<float>(sum));
  }
}

/// Work of a stream, a reduction, work of the stream: captured once, run three times.
TEST_F(OnGpu, CudaGraphsCaptureGradients) {
  const auto comm = create("pure_nccl", DType::kBFloat16);
  DeviceCollectives& collectives = *comm->device_collectives();
  const OnDevice<float> source(std::vector<float>(513, 1.0F), device_);
  const OnDevice<float> gradient(std::vector<float>(513, 0.0F), device_);
  const std::vector<BufferView> gradients{gradient.view()};
  const auto step = [&](cudaStream_t stream) {
    cudaMemcpyAsync(gradient.view().data, source.view().data, source.view().bytes(), cudaMemcpyDeviceToDevice, stream);
    collectives.after(stream);
    collectives.sum_gradients(gradients, 1.0);
    collectives.join(stream);
  };
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  step(stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  step(stream);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t instance = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(cudaGraphLaunch(instance, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(gradient.get(), std::vector<float>(513, static_cast<float>(size_))) << "round " << round;
  }
  EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

/// The kernel gives the bits that the host gets from the same code (tests/comm/pack_test.cpp).
TEST_F(OnGpu, PackedBitsAreTheHosts) {
  constexpr std::size_t kCount = 10'007;
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = std::ldexp(1.0F + static_cast<float>(i) * 1e-4F, static_cast<int>(i % 60) - 30);
  const OnDevice<float> from(values, device_);
  const OnDevice<Float16> to(std::vector<Float16>(kCount), device_);
  CudaStream stream(device_.index);
  const PackPiece pieces[] = {{from.view().data, to.view().data, 5000},
                              {from.view().slice(5001, 1).data, to.view().slice(5001, 1).data, kCount - 5001}};
  pack_on_device(pieces, DType::kFloat32, DType::kFloat16, 0.3, stream.handle());
  stream.synchronize();
  const auto packed = to.get();
  int wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const bool moved = i != 5000;
    wrong += moved && packed[i].bits != pack_element<float, Float16>(values[i], 0.3F).bits;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mn
