// Streams with pending work when a call begins: calls wait for the promised work, and later work finds their results.
#include <string>
#include <tuple>

#include <cuda_runtime_api.h>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/device/device_collectives.hpp>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/cuda_streams.hpp"

namespace mn {
namespace {

using testing::OnDevice;
using testing::OnGpu;
using testing::Stream;
using testing::two_pieces;

using Floats = std::vector<float>;

constexpr std::size_t kPart = 1027;

/// A buffer on the GPU whose values arrive only when a stream comes to them.
class Late {
 public:
  Late(const Floats& values, Device device) : values_(values, device), buffer_(Floats(values.size(), -1), device) {}

  /// Writes -1 now, and the values after the stream has been busy for some milliseconds.
  void start(cudaStream_t stream) {
    buffer_.set(Floats(view().count, -1));
    testing::delay(stream);
    EXPECT_EQ(cudaMemcpyAsync(view().data, values_.view().data, view().bytes(), cudaMemcpyDeviceToDevice, stream),
              cudaSuccess);
  }
  [[nodiscard]] BufferView view() const { return buffer_.view(); }

 private:
  OnDevice<float> values_;
  OnDevice<float> buffer_;
};

/// The present values, whatever streams hold.
Floats values_now(BufferView buffer) {
  const Stream stream;
  Floats values(buffer.count);
  EXPECT_EQ(cudaMemcpyAsync(values.data(), buffer.data, buffer.bytes(), cudaMemcpyDeviceToHost, stream), cudaSuccess);
  return values;
}

/// Rank r has r + 2 in every element.
class Pending : public OnGpu {
 protected:
  [[nodiscard]] static Floats of_rank(int rank, std::size_t count) {
    return Floats(count, static_cast<float>(rank + 2));
  }
  [[nodiscard]] Floats sum(std::size_t count, float scale = 1) const {
    return Floats(count, scale * static_cast<float>(size_ * (size_ + 3)) / 2);
  }
  /// The parts of all ranks.
  [[nodiscard]] Floats all() const {
    Floats values;
    for (int r = 0; r < size_; ++r) {
      const Floats theirs = of_rank(r, kPart);
      values.insert(values.end(), theirs.begin(), theirs.end());
    }
    return values;
  }
  [[nodiscard]] std::size_t whole() const { return kPart * static_cast<std::size_t>(size_); }
};

/// A wait for a GPU lets messages progress: rank 1 joins rank 0's collective only after rank 0's message is gone.
TEST_F(Pending, WaitsForAGpuLetMessagesGoOn) {
  const auto comm = create("pure_nccl");
  const auto staging = create("flat");
  const OnDevice<float> reduced(of_rank(rank_, kPart), device_);
  const Floats sent = of_rank(rank_, 5'000'000);
  for (const bool behind_a_stream : {false, true}) {
    Floats received(sent.size());
    Request request;
    if (rank_ == 0 && size_ > 1) request = comm->irecv(received, 1);
    if (rank_ == 1) comm->send(sent, 0);
    if (behind_a_stream) {
      DeviceCollectives& collectives = *comm->device_collectives();
      collectives.after(nullptr);
      collectives.bcast(reduced.view(), 0);
      collectives.join(nullptr);
      staging->bcast(reduced.view(), 0);
    } else {
      comm->allreduce(reduced.view());
    }
    EXPECT_EQ(reduced.get(), sum(kPart));
    request.wait();
    EXPECT_TRUE(rank_ > 0 || size_ == 1 || received == of_rank(1, sent.size()));
  }
}

/// A backend, and the number of nodes: rank r is on node r % nodes.
using Way = std::tuple<std::string, int>;

/// Blocking calls after work on the legacy default stream. Their results are there when they return.
class BlockingCalls : public Pending, public ::testing::WithParamInterface<Way> {
 protected:
  BlockingCalls()
      : comm_([this] {
          pretend_nodes(std::get<1>(GetParam()));
          return shared(std::get<0>(GetParam()));
        }()),
        part_(of_rank(rank_, kPart), device_),
        whole_(of_rank(rank_, whole()), device_),
        result_(Floats(whole(), -1), device_) {}

  std::shared_ptr<Communicator> comm_;
  Late part_;
  Late whole_;
  OnDevice<float> result_;
};

TEST_P(BlockingCalls, Allreduce) {
  part_.start(nullptr);
  comm_->allreduce(part_.view());
  EXPECT_EQ(values_now(part_.view()), sum(kPart));
}

TEST_P(BlockingCalls, Gradients) {
  for (const bool in_order : {true, false}) {
    whole_.start(nullptr);
    comm_->sum_gradients(two_pieces(whole_.view(), in_order), 0.5);
    EXPECT_EQ(values_now(whole_.view()), sum(whole(), 0.5F)) << (in_order ? "in order" : "packed");
  }
}

TEST_P(BlockingCalls, GradientsBesideOneOnTheHost) {
  whole_.start(nullptr);
  Floats host = of_rank(rank_, kPart);
  comm_->sum_gradients(std::vector{whole_.view(), BufferView(host)}, 0.5);
  EXPECT_EQ(values_now(whole_.view()), sum(whole(), 0.5F));
  EXPECT_EQ(host, sum(kPart, 0.5F));
}

TEST_P(BlockingCalls, Bcast) {
  part_.start(nullptr);
  comm_->bcast(part_.view(), size_ - 1);
  EXPECT_EQ(values_now(part_.view()), of_rank(size_ - 1, kPart));
}

TEST_P(BlockingCalls, Allgather) {
  part_.start(nullptr);
  comm_->allgather(part_.view(), result_.view());
  EXPECT_EQ(values_now(result_.view()), all());
}

TEST_P(BlockingCalls, AlltoallAlsoInPlace) {
  whole_.start(nullptr);
  comm_->alltoall(whole_.view(), result_.view());
  EXPECT_EQ(values_now(result_.view()), all());
  whole_.start(nullptr);
  comm_->alltoall(whole_.view(), whole_.view());
  EXPECT_EQ(values_now(whole_.view()), all());
}

TEST_P(BlockingCalls, ReduceScatter) {
  whole_.start(nullptr);
  comm_->reduce_scatter(whole_.view(), result_.view().slice(0, kPart));
  EXPECT_EQ(values_now(result_.view().slice(0, kPart)), sum(kPart));
}

TEST_P(BlockingCalls, GatherAndScatter) {
  part_.start(nullptr);
  comm_->gather(part_.view(), result_.view(), 0);
  EXPECT_EQ(values_now(result_.view()), rank_ == 0 ? all() : Floats(whole(), -1));
  whole_.start(nullptr);
  comm_->scatter(whole_.view(), result_.view().slice(0, kPart), 0);
  EXPECT_EQ(values_now(result_.view().slice(0, kPart)), of_rank(0, kPart));
}

TEST_P(BlockingCalls, SendAndRecv_from_2_ranks) {
  const int peer = rank_ ^ 1;
  if (peer >= size_) return;
  const BufferView received = result_.view().slice(0, kPart);
  part_.start(nullptr);
  if (rank_ < peer) comm_->send(part_.view(), peer);
  comm_->recv(received, peer);
  if (rank_ > peer) comm_->send(part_.view(), peer);
  EXPECT_EQ(values_now(received), of_rank(peer, kPart));
}

/// A thread begins with GPU 0, whatever the communicator's GPU is.
TEST_P(BlockingCalls, OnAnotherThread) {
  CommunicationThread thread(*comm_);
  for (const bool in_order : {true, false}) {
    whole_.start(nullptr);
    part_.start(nullptr);
    thread.submit([&](Communicator& comm) {
      comm.sum_gradients(two_pieces(whole_.view(), in_order), 0.5);
      comm.bcast(part_.view(), 0);
    });
    thread.wait();
    EXPECT_EQ(values_now(whole_.view()), sum(whole(), 0.5F));
    EXPECT_EQ(values_now(part_.view()), of_rank(0, kPart));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, BlockingCalls,
                         ::testing::Values(Way{"pure_nccl", 1}, Way{"naive", 1}, Way{"flat", 2}, Way{"hierarchical", 1},
                                           Way{"hierarchical", 2}, Way{"two_dimensional", 1},
                                           Way{"two_dimensional", 2}),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param));
                         });

/// Between after() and join(), calls are ordered with a stream that nothing else orders; the host never waits.
class EnqueuedCalls : public Pending, public ::testing::WithParamInterface<std::optional<DType>> {
 protected:
  EnqueuedCalls()
      : comm_(shared("pure_nccl", GetParam())),
        collectives_(*comm_->device_collectives()),
        part_(of_rank(rank_, kPart), device_),
        whole_(of_rank(rank_, whole()), device_),
        result_(Floats(whole(), -1), device_),
        copy_(Floats(whole(), -1), device_) {}

  /// Expects `expected` in the stream's copy of `result` after call().
  template <class Call>
  void expect(const Call& call, BufferView result, const Floats& expected) {
    part_.start(stream_);
    whole_.start(stream_);
    collectives_.after(stream_);
    call();
    collectives_.join(stream_);
    EXPECT_EQ(cudaMemcpyAsync(copy_.view().data, result.data, result.bytes(), cudaMemcpyDeviceToDevice, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(values_now(copy_.view().slice(0, result.count)), expected);
  }

  std::shared_ptr<Communicator> comm_;
  DeviceCollectives& collectives_;
  Late part_;
  Late whole_;
  OnDevice<float> result_;
  OnDevice<float> copy_;
  Stream stream_;
};

TEST_P(EnqueuedCalls, Gradients) {
  for (const bool in_order : {true, false}) {
    expect([&] { collectives_.sum_gradients(two_pieces(whole_.view(), in_order), 0.5); }, whole_.view(),
           sum(whole(), 0.5F));
  }
}

TEST_P(EnqueuedCalls, Collectives) {
  expect([&] { collectives_.allreduce(part_.view(), ReduceOp::kSum); }, part_.view(), sum(kPart));
  expect([&] { collectives_.bcast(part_.view(), size_ - 1); }, part_.view(), of_rank(size_ - 1, kPart));
  expect([&] { collectives_.allgather(part_.view(), result_.view()); }, result_.view(), all());
  expect([&] { collectives_.alltoall(whole_.view(), result_.view()); }, result_.view(), all());
  const BufferView mine = result_.view().slice(0, kPart);
  expect([&] { collectives_.reduce_scatter(whole_.view(), mine, ReduceOp::kSum); }, mine, sum(kPart));
}

/// wait() is enough, without any join().
TEST_P(EnqueuedCalls, TheHostWaitsForAllOfThem) {
  for (int round = 0; round < 10; ++round) {
    part_.start(stream_);
    collectives_.after(stream_);
    for (int i = 0; i < 3; ++i) collectives_.bcast(part_.view(), 0);
    collectives_.wait();
    EXPECT_EQ(values_now(part_.view()), of_rank(0, kPart));
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, EnqueuedCalls,
                         ::testing::Values(std::optional<DType>(), std::optional(DType::kBFloat16)),
                         [](const auto& test) { return test.param ? "bfloat16" : "float32"; });

}  // namespace
}  // namespace mn
