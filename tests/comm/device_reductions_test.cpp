// Reductions on every backend for GPUs, gradients, and nonblocking calls.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <mn/core/error.hpp>

#include "tests/comm/device_calls.hpp"

namespace mn {
namespace {

using testing::DeviceCalls;
using testing::Ints;
using testing::OnDevice;
using testing::pattern;

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

/// Several in flight, beside a blocking call, waited for in another order.
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
    comm_->sum_gradients(std::vector{BufferView(on_host), a.view(), a.view().slice(0, 0), b.view()}, factor);
    EXPECT_EQ(on_host, std::vector<float>(part(), static_cast<float>(expected(size_))));
    EXPECT_EQ(a.get(), std::vector<float>(whole(), static_cast<float>(expected(2 * size_))));
    EXPECT_EQ(b.get(), std::vector<double>(part(), expected(3 * size_)));
  }
}

TEST_P(DeviceCalls, DebugModeReadsGradients) {
  const auto checked = create(std::get<0>(GetParam()), {}, true);
  const OnDevice<float> good(std::vector<float>(part(), 1.0F), device_);
  checked->sum_gradients(std::vector{good.view()}, 1.0);
  std::vector<float> values(part(), 1.0F);
  values.back() = std::numeric_limits<float>::quiet_NaN();
  const OnDevice<float> bad(values, device_);
  EXPECT_THROW(checked->sum_gradients(std::vector{bad.view()}, 1.0), ArgumentError);
}

}  // namespace
}  // namespace mn
