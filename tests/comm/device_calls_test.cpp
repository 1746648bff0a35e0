// Calls that move elements, on every backend for GPUs, with each buffer on the GPU or on the host, on one and two
// nodes.
#include "tests/comm/device_calls.hpp"

#include <functional>
#include <string>
#include <vector>

namespace mn {
namespace {

using testing::DeviceCalls;
using testing::Ints;
using testing::OnDevice;

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

TEST_P(DeviceCalls, SendAndRecv_from_2_ranks) {
  const int peer = rank_ ^ 1;
  if (peer >= size_) return;
  expect(own(part()), values_of(peer, part()), [&](ConstBufferView in, BufferView out) {
    if (rank_ < peer) comm_->send(in, peer);
    comm_->recv(out, peer);
    if (rank_ > peer) comm_->send(in, peer);
  });
}

/// From any rank, into memory of either kind.
TEST_P(DeviceCalls, RecvFromAnySource) {
  for (const bool on_gpu : {false, true}) {
    if (rank_ > 0) comm_->send(OnDevice<std::int32_t>(own(part()), device_).view(), 0, 3);
    int sum = 0;
    for (int i = 1; i < size_ && rank_ == 0; ++i) {
      Ints host = untouched(part());
      const OnDevice<std::int32_t> gpu(host, device_);
      const int source = comm_->recv(on_gpu ? gpu.view() : BufferView(host), Communicator::kAnySource, 3);
      EXPECT_EQ(on_gpu ? gpu.get() : host, values_of(source, part()));
      sum += source;
    }
    EXPECT_TRUE(rank_ > 0 || sum == size_ * (size_ - 1) / 2);
    comm_->barrier();  // no rank may send twice before another has sent
  }
}

/// A receive that is posted already takes the first message; recv() waits for the second, of any tag.
TEST_P(DeviceCalls, RecvFollowsAPostedReceive) {
  if (rank_ == 1) {
    for (const int tag : {3, 4}) comm_->send(OnDevice<std::int32_t>(values_of(tag, part()), device_).view(), 0, tag);
  }
  if (rank_ == 0 && size_ > 1) {
    const OnDevice<std::int32_t> first(untouched(part()), device_), second(untouched(part()), device_);
    Request posted = comm_->irecv(first.view(), 1, 3);
    EXPECT_EQ(comm_->recv(second.view(), Communicator::kAnySource, Communicator::kAnyTag), 1);
    EXPECT_EQ(second.get(), values_of(4, part()));
    posted.wait();
    EXPECT_EQ(first.get(), values_of(3, part()));
  }
}

std::vector<testing::DeviceCase> cases() {
  std::vector<testing::DeviceCase> all;
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
