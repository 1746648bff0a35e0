// Every call of every backend that takes GPUs, with each buffer on the GPU or on the host, on one node and on two.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"

namespace mn {
namespace {

using testing::OnDevice;
using testing::OnGpu;
using testing::pattern;

using Ints = std::vector<std::int32_t>;

/// Backend, nodes (rank r is on node r % nodes), elements of a rank's part.
using Case = std::tuple<std::string, int, std::size_t>;

class DeviceCalls : public OnGpu, public ::testing::WithParamInterface<Case> {
 protected:
  DeviceCalls() {
    pretend_nodes(std::get<1>(GetParam()));
    comm_ = create(std::get<0>(GetParam()));
  }

  [[nodiscard]] std::size_t part() const { return std::get<2>(GetParam()); }
  [[nodiscard]] std::size_t whole() const { return part() * static_cast<std::size_t>(size_); }
  [[nodiscard]] static Ints values_of(int rank, std::size_t count) {
    return testing::filled<std::int32_t>(count, [&](std::size_t i) { return pattern(rank, i) + 1; });
  }
  [[nodiscard]] Ints own(std::size_t count) const { return values_of(rank_, count); }
  /// Part `index` of a whole.
  [[nodiscard]] Ints part_of(const Ints& values, int index) const {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(part()) * index;
    return {first, first + static_cast<std::ptrdiff_t>(part())};
  }
  /// what(rank), one behind the other.
  [[nodiscard]] Ints from_all(const std::function<Ints(int rank)>& what) const {
    Ints all;
    for (int r = 0; r < size_; ++r) {
      const Ints theirs = what(r);
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    return all;
  }
  [[nodiscard]] Ints sums(std::size_t count) const {
    Ints sum(count, 0);
    for (int r = 0; r < size_; ++r) {
      const Ints theirs = values_of(r, count);
      for (std::size_t i = 0; i < count; ++i) sum[i] += theirs[i];
    }
    return sum;
  }

  using Call = std::function<void(ConstBufferView in, BufferView out)>;
  /// Expects that `call` makes `expected` of `in`, wherever the two lie, and leaves `in` as it is. `out` has as many
  /// elements, all -9 before.
  void expect(const Ints& in, const Ints& expected, const Call& call) const {
    for (const bool in_on_gpu : {false, true}) {
      for (const bool out_on_gpu : {false, true}) {
        SCOPED_TRACE(std::string("in on the ") + (in_on_gpu ? "GPU" : "host") + ", out on the " +
                     (out_on_gpu ? "GPU" : "host"));
        Ints host_in = in;
        Ints host_out(expected.size(), -9);
        const OnDevice<std::int32_t> gpu_in(host_in, device_);
        const OnDevice<std::int32_t> gpu_out(host_out, device_);
        call(in_on_gpu ? gpu_in.view() : BufferView(host_in), out_on_gpu ? gpu_out.view() : BufferView(host_out));
        EXPECT_EQ(out_on_gpu ? gpu_out.get() : host_out, expected);
        EXPECT_EQ(in_on_gpu ? gpu_in.get() : host_in, in);
      }
    }
  }
  /// What a rank holds that a call to or from a root leaves out.
  [[nodiscard]] static Ints untouched(std::size_t count) { return Ints(count, -9); }

  std::shared_ptr<Communicator> comm_;
};

TEST_P(DeviceCalls, Bcast) {
  const int root = size_ - 1;
  for (const bool on_gpu : {false, true}) {
    Ints host = own(whole());
    const OnDevice<std::int32_t> gpu(host, device_);
    comm_->bcast(on_gpu ? gpu.view() : BufferView(host), root);
    EXPECT_EQ(on_gpu ? gpu.get() : host, values_of(root, whole()));
  }
}

TEST_P(DeviceCalls, Allgather) {
  expect(own(part()), from_all([&](int r) { return values_of(r, part()); }),
         [&](ConstBufferView in, BufferView out) { comm_->allgather(in, out); });
}

TEST_P(DeviceCalls, Alltoall) {
  expect(own(whole()), from_all([&](int r) { return part_of(values_of(r, whole()), rank_); }),
         [&](ConstBufferView in, BufferView out) { comm_->alltoall(in, out); });
}

TEST_P(DeviceCalls, AlltoallInPlaceOnOneRankAlone) {
  const auto expected = from_all([&](int r) { return part_of(values_of(r, whole()), rank_); });
  for (int round = 0; round < 2; ++round) {
    const OnDevice<std::int32_t> send(own(whole()), device_);
    const OnDevice<std::int32_t> recv(untouched(whole()), device_);
    const OnDevice<std::int32_t>& out = rank_ == size_ - 1 ? send : recv;
    comm_->alltoall(send.view(), out.view());
    EXPECT_EQ(out.get(), expected);
  }
}

template <class T>
void expect_nans_in_extremes(Communicator& comm, std::size_t part, Device device) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    // Element i is NaN on rank i % (ranks + 1), and nowhere for the last remainder; both signs.
    const auto value = [](std::size_t r, std::size_t i) { return pattern(static_cast<int>(r), i) - 3; };
    auto values = testing::filled<T>(part * ranks, [&](std::size_t i) { return value(rank, i); });
    for (std::size_t i = rank; i < values.size(); i += ranks + 1) {
      values[i] = testing::element_of<T>(std::numeric_limits<float>::quiet_NaN());
    }
    const auto expect = [&](std::size_t first, const std::vector<double>& got) {
      int wrong = 0;
      for (std::size_t i = first; i < first + got.size(); ++i) {
        int best = value(0, i);
        for (std::size_t r = 1; r < ranks; ++r)
          best = op == ReduceOp::kMin ? std::min(best, value(r, i)) : std::max(best, value(r, i));
        const double x = got[i - first];
        wrong += i % (ranks + 1) < ranks ? !std::isnan(x) : x != best;
      }
      EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>()) << ", " << name_of(op);
    };
    const OnDevice<T> send(values, device);
    const OnDevice<T> recv(std::vector<T>(part), device);
    comm.reduce_scatter(send.view(), recv.view(), op);
    expect(rank * part, testing::numbers(recv.get()));
    comm.allreduce(send.view(), op);
    expect(0, testing::numbers(send.get()));
  }
}

TEST_P(DeviceCalls, TheMinimumAndMaximumOfANanAreNan) {
  expect_nans_in_extremes<Float16>(*comm_, part(), device_);
  expect_nans_in_extremes<BFloat16>(*comm_, part(), device_);
  expect_nans_in_extremes<float>(*comm_, part(), device_);
  expect_nans_in_extremes<double>(*comm_, part(), device_);
}

TEST_P(DeviceCalls, ReduceScatter) {
  expect(own(whole()), part_of(sums(whole()), rank_),
         [&](ConstBufferView in, BufferView out) { comm_->reduce_scatter(in, out); });
}

TEST_P(DeviceCalls, ReduceToARoot) {
  const int root = size_ - 1;
  const OnDevice<std::int32_t> send(own(whole()), device_);
  const OnDevice<std::int32_t> recv(untouched(whole()), device_);
  comm_->reduce(send.view(), recv.view(), ReduceOp::kSum, root);
  EXPECT_EQ(recv.get(), rank_ == root ? sums(whole()) : untouched(whole()));
  EXPECT_EQ(send.get(), own(whole()));
  comm_->reduce(send.view(), rank_ == root ? send.view() : BufferView(), ReduceOp::kSum, root);
  EXPECT_EQ(send.get(), rank_ == root ? sums(whole()) : own(whole()));
}

TEST_P(DeviceCalls, AverageOfFloats) {
  const auto run = [&]<class T>() {
    const auto expected = testing::numbers(testing::filled<T>(whole(), [&](std::size_t i) { return sum_at(i); }));
    const auto sent = testing::filled<T>(whole(), [&](std::size_t i) { return size_ * pattern(rank_, i); });
    const OnDevice<T> send(sent, device_);
    const OnDevice<T> recv(std::vector<T>(part()), device_);
    const OnDevice<T> at_root(std::vector<T>(whole()), device_);
    comm_->reduce_scatter(send.view(), recv.view(), ReduceOp::kAverage);
    comm_->reduce(send.view(), at_root.view(), ReduceOp::kAverage, 0);
    comm_->allreduce(send.view(), ReduceOp::kAverage);
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(part()) * rank_;
    EXPECT_EQ(testing::numbers(recv.get()), std::vector<double>(first, first + static_cast<std::ptrdiff_t>(part())));
    EXPECT_EQ(testing::numbers(at_root.get()), rank_ == 0 ? expected : std::vector<double>(whole(), 0));
    EXPECT_EQ(testing::numbers(send.get()), expected);
  };
  run.template operator()<Float16>();
  run.template operator()<BFloat16>();
  run.template operator()<double>();
}

TEST_P(DeviceCalls, Allgatherv) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(size_), part());
  counts[0] = 0;
  auto all = from_all([&](int r) { return r == 0 ? Ints() : values_of(r, part()); });
  expect(rank_ == 0 ? Ints() : own(part()), all,
         [&](ConstBufferView in, BufferView out) { comm_->allgatherv(in, out, counts); });
}

TEST_P(DeviceCalls, PartsOfDifferentLengths) {
  const auto length = [&](int from, int to) { return from == to ? 0 : part() + static_cast<std::size_t>(from + to); };
  std::vector<std::size_t> sends;
  std::vector<std::size_t> receives;
  Ints expected;
  for (int r = 0; r < size_; ++r) {
    sends.push_back(length(rank_, r));
    receives.push_back(length(r, rank_));
    const Ints theirs = values_of(r, receives.back());
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  Ints sent;
  for (const std::size_t count : sends) {
    const Ints each = own(count);
    sent.insert(sent.end(), each.begin(), each.end());
  }
  expect(sent, expected, [&](ConstBufferView in, BufferView out) { comm_->alltoallv(in, sends, out, receives); });
}

TEST_P(DeviceCalls, PartsOfDifferentLengthsAtARoot) {
  const int root = size_ - 1;
  std::vector<std::size_t> counts;
  for (int r = 0; r < size_; ++r) counts.push_back(r == 0 ? 0 : part() + static_cast<std::size_t>(r));
  const std::size_t mine = counts[static_cast<std::size_t>(rank_)];
  const Ints all = from_all([&](int r) { return values_of(r, counts[static_cast<std::size_t>(r)]); });
  const OnDevice<std::int32_t> send(own(mine), device_);
  const OnDevice<std::int32_t> gathered(untouched(all.size()), device_);
  comm_->gatherv(send.view(), gathered.view(), counts, root);
  EXPECT_EQ(gathered.get(), rank_ == root ? all : untouched(all.size()));
  const OnDevice<std::int32_t> back(untouched(mine), device_);
  comm_->scatterv(gathered.view(), counts, back.view(), root);
  EXPECT_EQ(back.get(), own(mine));
}

/// Several in flight, beside a blocking call, waited for in the order that is not theirs.
TEST_P(DeviceCalls, InTheBackground) {
  for (const bool on_gpu : {false, true}) {
    Ints host_sum = own(whole());
    Ints host_all = untouched(whole());
    Ints host_part = untouched(part());
    Ints host_root = own(part());
    const OnDevice<std::int32_t> gpu_sum(host_sum, device_);
    const OnDevice<std::int32_t> gpu_all(host_all, device_);
    const OnDevice<std::int32_t> gpu_part(host_part, device_);
    const OnDevice<std::int32_t> gpu_root(host_root, device_);
    const OnDevice<std::int32_t> blocking(own(whole()), device_);
    const auto where = [&](const OnDevice<std::int32_t>& gpu, Ints& host) {
      return on_gpu ? gpu.view() : BufferView(host);
    };
    Request sum = comm_->iallreduce(where(gpu_sum, host_sum));
    const Ints mine = own(part());
    const OnDevice<std::int32_t> gpu_mine(mine, device_);
    Request all =
        comm_->iallgather(on_gpu ? ConstBufferView(gpu_mine.view()) : ConstBufferView(mine), where(gpu_all, host_all));
    comm_->allreduce(blocking.view());
    const Ints wholes = own(whole());
    const OnDevice<std::int32_t> gpu_wholes(wholes, device_);
    Request reduced = comm_->ireduce_scatter(on_gpu ? ConstBufferView(gpu_wholes.view()) : ConstBufferView(wholes),
                                             where(gpu_part, host_part));
    Request root = comm_->ibcast(where(gpu_root, host_root), size_ - 1);
    root.wait();
    reduced.wait();
    all.wait();
    sum.wait();
    EXPECT_TRUE(sum.is_done());
    EXPECT_EQ(on_gpu ? gpu_sum.get() : host_sum, sums(whole()));
    EXPECT_EQ(on_gpu ? gpu_all.get() : host_all, from_all([&](int r) { return values_of(r, part()); }));
    EXPECT_EQ(on_gpu ? gpu_part.get() : host_part, part_of(sums(whole()), rank_));
    EXPECT_EQ(on_gpu ? gpu_root.get() : host_root, values_of(size_ - 1, part()));
    EXPECT_EQ(blocking.get(), sums(whole()));
  }
}

TEST_P(DeviceCalls, Gather) {
  const auto all = from_all([&](int r) { return values_of(r, part()); });
  expect(own(part()), rank_ == 0 ? all : untouched(whole()),
         [&](ConstBufferView in, BufferView out) { comm_->gather(in, out, 0); });
}

TEST_P(DeviceCalls, Scatter) {
  const int root = size_ - 1;
  expect(own(whole()), part_of(values_of(root, whole()), rank_),
         [&](ConstBufferView in, BufferView out) { comm_->scatter(in, out, root); });
}

TEST_P(DeviceCalls, SendAndRecv) {
  const int peer = rank_ ^ 1;
  if (peer >= size_) return;
  expect(own(part()), values_of(peer, part()), [&](ConstBufferView in, BufferView out) {
    if (rank_ < peer) comm_->send(in, peer);
    comm_->recv(out, peer);
    if (rank_ > peer) comm_->send(in, peer);
  });
}

TEST_P(DeviceCalls, Allreduce) {
  for (int round = 0; round < 5; ++round) {
    const OnDevice<std::int32_t> buffer(own(whole()), device_);
    comm_->allreduce(buffer.view());
    EXPECT_EQ(buffer.get(), sums(whole()));
  }
}

TEST_P(DeviceCalls, GradientsOnBothSidesAtOnce) {
  const double factor = 0.5;
  const auto expected = [&](double sum) { return std::get<0>(GetParam()) == "dummy" ? sum / size_ : factor * sum; };
  for (int round = 0; round < 5; ++round) {
    std::vector<float> on_host(part(), 1.0F);
    const OnDevice<float> a(std::vector<float>(whole(), 2.0F), device_);
    const OnDevice<double> b(std::vector<double>(part(), 3.0), device_);
    comm_->allreduce_grad(std::vector{BufferView(on_host), a.view(), a.view().slice(0, 0), b.view()}, factor);
    EXPECT_EQ(on_host, std::vector<float>(part(), static_cast<float>(expected(size_))));
    EXPECT_EQ(a.get(), std::vector<float>(whole(), static_cast<float>(expected(2 * size_))));
    EXPECT_EQ(b.get(), std::vector<double>(part(), expected(3 * size_)));
  }
}

TEST_P(DeviceCalls, DebugModeReadsGradients) {
  const auto checked = create(std::get<0>(GetParam()), {}, true);
  const OnDevice<float> good(std::vector<float>(part(), 1.0F), device_);
  checked->allreduce_grad(std::vector{good.view()}, 1.0);
  std::vector<float> values(part(), 1.0F);
  values.back() = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> bad(values, device_);
  EXPECT_THROW(checked->allreduce_grad(std::vector{bad.view()}, 1.0), ArgumentError);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& backend : communicator_names(DeviceType::kCuda)) {
    for (const int nodes : {1, 2}) {
      if (backend == "single_node" && nodes > 1) continue;
      for (const std::size_t part : {1, 1027}) all.emplace_back(backend, nodes, part);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, DeviceCalls, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)) + "_nodes_" +
         std::to_string(std::get<2>(test.param));
});

}  // namespace
}  // namespace mn
