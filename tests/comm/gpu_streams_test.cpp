// Calls begin after the work on their buffers' streams, and wait for no further stream.
#include <chrono>
#include <future>
#include <thread>
#include <tuple>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using testing::filled;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::OnGpu;
using testing::pattern;
using ::testing::ThrowsMessage;
using Ints = std::vector<std::int32_t>;

struct Backend {
  const char* name;
  int nodes;
};

/// A stream of each kind, with work that ends late.
class StreamOrder : public OnGpu, public ::testing::WithParamInterface<std::tuple<Backend, const char*>> {
 protected:
  static constexpr std::size_t kPart = 1027;

  StreamOrder() {
    const auto& [backend, kind] = GetParam();
    pretend_nodes(backend.nodes);
    comm_ = shared(backend.name);
    cuda_set_device(device_.index);
    if (kind == std::string("default")) return;
    const unsigned flags = kind == std::string("blocking") ? cudaStreamDefault : cudaStreamNonBlocking;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~StreamOrder() override {
    if (stream_ == nullptr) return;
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  /// The stream writes `values` into `buffer`, late.
  template <class T>
  void write_late(const OnDevice<T>& buffer, const OnDevice<T>& values) {
    const auto pause = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    EXPECT_EQ(cudaLaunchHostFunc(stream_, pause, nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(buffer.view().data, values.view().data, buffer.view().bytes(), cudaMemcpyDeviceToDevice,
                              stream_),
              cudaSuccess);
  }
  template <class T>
  [[nodiscard]] BufferView view(const OnDevice<T>& buffer) const {
    return buffer.view().on_stream(stream_);
  }
  template <class T>
  std::vector<T> once_done(const OnDevice<T>& buffer) {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return buffer.get();
  }
  /// call(buffer), with a buffer into which the stream writes the rank's values, late.
  template <class T, class Call>
  void expect_in_place(const std::vector<T>& own, const Call& call, const std::vector<T>& expected) {
    const OnDevice<T> values(own, device_);
    const OnDevice<T> buffer(std::vector<T>(own.size(), T(-1)), device_);
    write_late(buffer, values);
    call(view(buffer));
    EXPECT_EQ(once_done(buffer), expected);
  }
  /// call(in, out): the stream writes `in` late, and then something else into `out`.
  template <class Call>
  void expect_moved(const Ints& own, const Call& call, const Ints& expected) {
    const OnDevice<std::int32_t> values(own, device_);
    const OnDevice<std::int32_t> in(Ints(own.size(), -1), device_);
    const OnDevice<std::int32_t> noise(Ints(expected.size(), -2), device_);
    const OnDevice<std::int32_t> out(Ints(expected.size(), -3), device_);
    write_late(in, values);
    write_late(out, noise);
    call(view(in), view(out));
    EXPECT_EQ(once_done(out), expected);
  }
  /// The values of `rank`.
  [[nodiscard]] static Ints of(int rank, std::size_t count) {
    return filled<std::int32_t>(count, [&](std::size_t i) { return pattern(rank, i); });
  }
  [[nodiscard]] Ints sums(std::size_t first, std::size_t count) const {
    return filled<std::int32_t>(count, [&](std::size_t i) { return static_cast<int>(sum_at(first + i)); });
  }

  std::shared_ptr<Communicator> comm_;
  cudaStream_t stream_ = nullptr;
};

TEST_P(StreamOrder, InPlace) {
  expect_in_place(
      of(rank_, kPart), [&](BufferView b) { comm_->allreduce(b); }, sums(0, kPart));
  expect_in_place(
      of(rank_, kPart), [&](BufferView b) { comm_->bcast(b, size_ - 1); }, of(size_ - 1, kPart));
}

TEST_P(StreamOrder, Gradients) {
  const auto own = filled<float>(kPart, [&](std::size_t i) { return pattern(rank_, i); });
  const auto mean = filled<float>(kPart, [&](std::size_t i) { return static_cast<int>(sum_at(i)); });
  for (const bool in_order : {true, false}) {
    const auto reduce = [&](BufferView whole) { comm_->sum_gradients(testing::two_pieces(whole, in_order), 1.0); };
    expect_in_place(own, reduce, mean);
  }
}

TEST_P(StreamOrder, FromOneBufferToAnother) {
  const auto ranks = static_cast<std::size_t>(size_);
  const auto me = static_cast<std::size_t>(rank_);
  const Ints all_parts = filled<std::int32_t>(
      kPart * ranks, [&](std::size_t i) { return pattern(static_cast<int>(i / kPart), i % kPart); });
  const Ints from_each = filled<std::int32_t>(
      kPart * ranks, [&](std::size_t i) { return pattern(static_cast<int>(i / kPart), me * kPart + i % kPart); });
  const Ints own = of(rank_, kPart * ranks);
  const Ints part(own.begin(), own.begin() + kPart);
  const Ints roots = of(0, kPart * ranks);
  const Ints of_root(roots.begin() + static_cast<std::ptrdiff_t>(me * kPart),
                     roots.begin() + static_cast<std::ptrdiff_t>((me + 1) * kPart));
  expect_moved(
      part, [&](auto in, auto out) { comm_->allgather(in, out); }, all_parts);
  expect_moved(
      own, [&](auto in, auto out) { comm_->alltoall(in, out); }, from_each);
  expect_moved(
      own, [&](auto in, auto out) { comm_->reduce_scatter(in, out); }, sums(me * kPart, kPart));
  expect_moved(
      own, [&](auto in, auto out) { comm_->scatter(in, out); }, of_root);
  const Ints gathered = rank_ == 0 ? all_parts : Ints(kPart * ranks, -2);
  expect_moved(
      part, [&](auto in, auto out) { comm_->gather(in, out); }, gathered);
}

TEST_P(StreamOrder, Messages_from_2_ranks) {
  const int peer = rank_ ^ 1;
  if (peer >= size_) return;
  const auto exchange = [&](BufferView in, BufferView out) {
    if (rank_ < peer) comm_->send(in, peer);
    comm_->recv(out, peer);
    if (rank_ > peer) comm_->send(in, peer);
  };
  expect_moved(of(rank_, kPart), exchange, of(peer, kPart));
  const auto exchange_at_once = [&](BufferView in, BufferView out) { comm_->sendrecv(in, peer, out, peer); };
  expect_moved(of(rank_, kPart), exchange_at_once, of(peer, kPart));
  const auto exchange_in_background = [&](BufferView in, BufferView out) {
    Request received = comm_->irecv(out, peer);
    Request sent = comm_->isend(in, peer);
    sent.wait();
    received.wait();
  };
  expect_moved(of(rank_, kPart), exchange_in_background, of(peer, kPart));
  const auto exchange_without_a_wait = [&](BufferView in, BufferView out) {
    const Request received = comm_->irecv(out, peer);
    const Request sent = comm_->isend(in, peer);
  };
  expect_moved(of(rank_, kPart), exchange_without_a_wait, of(peer, kPart));
}

INSTANTIATE_TEST_SUITE_P(
    Calls, StreamOrder,
    ::testing::Combine(::testing::Values(Backend{"pure_nccl", 1}, Backend{"hierarchical", 2},
                                         Backend{"two_dimensional", 2}, Backend{"flat", 1}, Backend{"naive", 1}),
                       ::testing::Values("default", "blocking", "non_blocking")),
    [](const auto& test) { return std::string(std::get<0>(test.param).name) + "_on_" + std::get<1>(test.param); });

/// The legacy default stream is busy, as with backward while gradients are reduced in the background.
TEST_F(OnGpu, CallsOnAFreeStreamDoNotQueueBehindTheDefaultStream) {
  pretend_nodes(2);
  for (const char* name : {"flat", "hierarchical", "two_dimensional", "pure_nccl"}) {
    const auto comm = shared(name);
    cudaStream_t free = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking), cudaSuccess);
    const auto gradient = mine<float>(99);
    const auto reduce = [&] { comm->sum_gradients(std::vector{gradient.view().on_stream(free)}, 1.0); };
    reduce();
    std::promise<void> gate;
    std::future<void> opened = gate.get_future();
    const auto wait = [](void* future) { static_cast<std::future<void>*>(future)->wait_for(std::chrono::seconds(20)); };
    EXPECT_EQ(cudaLaunchHostFunc(nullptr, wait, &opened), cudaSuccess);
    reduce();
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady) << name;
    gate.set_value();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(free), cudaSuccess);
  }
}

/// Whatever device the thread had: the legacy default stream is that of the current one.
TEST_F(OnGpu, StreamsAreOrderedOnTheirOwnDevice) {
  CudaStream stream(device_.index);
  const auto order = [&](auto call) {
    cuda_set_device((device_.index + 1) % cuda_device_count());
    call();
    int now = -1;
    EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, device_.index);
  };
  order([&] { stream.wait_for(nullptr); });
  order([&] { stream.go_before(nullptr); });
}

TEST_F(OnGpu, DebugModeTellsHostFromDevice_from_2_ranks) {
  for (const char* name : {"pure_nccl", "flat"}) {
    const auto comm = create(name, {}, true);
    const auto on_device = mine<float>(4);
    std::vector<float> on_host(4);
    const bool am_last = rank_ == size_ - 1;
    const BufferView buffer = am_last ? BufferView(on_host) : on_device.view();
    const auto both = AllOf(HasSubstr("of 4 float32 on a GPU"), HasSubstr("of 4 float32"), HasSubstr("rank 0"));
    EXPECT_THAT([&] { comm->allreduce(buffer); }, ThrowsMessage<ArgumentError>(both)) << name;
    EXPECT_THAT([&] { comm->bcast(buffer); }, ThrowsMessage<ArgumentError>(both)) << name;
    EXPECT_THAT([&] { comm->sum_gradients(std::vector{buffer}, 1.0); }, ThrowsMessage<ArgumentError>(both)) << name;
    const auto all = mine<float>(4 * static_cast<std::size_t>(size_));
    std::vector<float> all_on_host(4 * static_cast<std::size_t>(size_));
    EXPECT_THAT([&] { comm->allgather(on_device.view(), am_last ? BufferView(all_on_host) : all.view()); },
                ThrowsMessage<ArgumentError>(HasSubstr("recv on a GPU")))
        << name;
    comm->allreduce(on_device.view());
    expect_sums(on_device, 1);
  }
}

TEST_F(OnGpu, AllocateGivesPageLockedMemory) {
  const auto comm = create("pure_nccl");
  const auto memory = comm->allocate(1000);
  EXPECT_EQ(std::count(memory.get(), memory.get() + 1000, std::byte{0}), 1000);
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory.get()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
}

}  // namespace
}  // namespace mn
