#include "tests/comm/programs/collectives.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include <mn/core/json.hpp>

#include "tests/comm/programs/model.hpp"

namespace mn::testing {

CollectiveCall::CollectiveCall(const Action& action, Communicator& comm, Memories& memories)
    : action_(action),
      comm_(comm),
      memories_(memories),
      ranks_(static_cast<std::size_t>(comm.size())),
      self_(static_cast<std::size_t>(comm.rank())),
      part_(action.count / ranks_) {}

void CollectiveCall::run() {
  switch (action_.call) {
    case Call::kBcast:
      return bcast();
    case Call::kGather:
    case Call::kAllgather:
      return gather();
    case Call::kAlltoall:
      return alltoall();
    case Call::kScatter:
      return scatter();
    case Call::kAllreduce:
      return allreduce();
    case Call::kAllreduceAllocated:
      return allreduce_allocated();
    case Call::kReduceScatter:
      return reduce_scatter();
    case Call::kBarrier:
      return comm_.barrier();
    case Call::kMonitoredBarrier:
      return comm_.monitored_barrier(std::chrono::minutes(5));
    case Call::kSplit:
      return comm_.split(0, comm_.rank())->barrier();
    case Call::kGradients:
      return gradients();
    case Call::kReduce:
      return reduce();
    case Call::kGatherv:
    case Call::kAllgatherv:
      return gather_uneven();
    case Call::kScatterv:
      return scatter_uneven();
    case Call::kAlltoallv:
      return alltoall_uneven();
    default:
      return objects();
  }
}

void CollectiveCall::bcast() {
  const Values sent = values_of(action_, action_.peer, action_.count);
  Memory& memory = is_root() ? keep(sent) : empty(action_.count);
  comm_.bcast(memory.view(), action_.peer);
  memory.expect(sent);
}

void CollectiveCall::gather() {
  const bool receives = action_.call == Call::kAllgather || is_root();
  const bool in_place = action_.in_place && receives;
  const Values own = values_of(action_, comm_.rank(), part_);
  Values whole(receives ? ranks_ * part_ : 0, kEmpty);
  if (in_place) std::ranges::copy(own, whole.begin() + static_cast<std::ptrdiff_t>(self_ * part_));
  Memory& recv = keep(whole);
  const BufferView send = in_place ? recv.view().slice(self_ * part_, part_) : keep(own).view();
  if (action_.call == Call::kAllgather)
    comm_.allgather(send, recv.view());
  else
    comm_.gather(send, recv.view(), action_.peer);
  recv.expect(receives ? values_of_all(action_, comm_.size(), part_) : Values());
}

void CollectiveCall::alltoall() {
  Memory& send = keep(values_of(action_, comm_.rank(), ranks_ * part_));
  Memory& recv = action_.in_place ? send : empty(ranks_ * part_);
  comm_.alltoall(send.view(), recv.view());
  recv.expect(values_of_all(action_, comm_.size(), part_, self_ * part_));
}

void CollectiveCall::scatter() {
  const Values whole = is_root() ? values_of(action_, comm_.rank(), ranks_ * part_) : Values();
  Memory& send = keep(whole);
  if (action_.in_place && is_root()) {
    comm_.scatter(send.view(), send.view().slice(self_ * part_, part_), action_.peer);
    return send.expect(whole);
  }
  Memory& recv = empty(part_);
  comm_.scatter(send.view(), recv.view(), action_.peer);
  recv.expect(values_of(action_, action_.peer, part_, self_ * part_));
}

void CollectiveCall::reduce_scatter() {
  Memory& send = keep(reduction_inputs(action_, comm_.rank(), comm_.size(), ranks_ * part_));
  const Values own = reduced(action_, comm_.size(), self_ * part_, part_);
  if (action_.in_place) {
    Values after = reduction_inputs(action_, comm_.rank(), comm_.size(), ranks_ * part_);
    std::ranges::copy(own, after.begin() + static_cast<std::ptrdiff_t>(self_ * part_));
    comm_.reduce_scatter(send.view(), send.view().slice(self_ * part_, part_), action_.op);
    return send.expect(after);
  }
  Memory& recv = empty(part_);
  comm_.reduce_scatter(send.view(), recv.view(), action_.op);
  recv.expect(own);
}

void CollectiveCall::allreduce() {
  Memory& memory = keep(reduction_inputs(action_, comm_.rank(), comm_.size(), action_.count));
  comm_.allreduce(memory.view(), action_.op);
  memory.expect(reduced(action_, comm_.size(), 0, action_.count));
}

void CollectiveCall::reduce() {
  Memory& send = keep(reduction_inputs(action_, comm_.rank(), comm_.size(), action_.count));
  Memory& recv = action_.in_place && is_root() ? send : empty(is_root() ? action_.count : 0);
  comm_.reduce(send.view(), recv.view(), action_.op, action_.peer);
  recv.expect(is_root() ? reduced(action_, comm_.size(), 0, action_.count) : Values());
}

std::vector<std::size_t> CollectiveCall::lengths(std::size_t of) const {
  std::vector<std::size_t> lengths;
  for (std::size_t r = 0; r < ranks_; ++r) {
    lengths.push_back((r + of + static_cast<std::size_t>(action_.id)) % 3 == 0 ? 0 : part_ + 2 * r + of);
  }
  return lengths;
}

void CollectiveCall::gather_uneven() {
  const bool receives = action_.call == Call::kAllgatherv || is_root();
  const auto counts = lengths();
  Values all;
  for (std::size_t r = 0; r < ranks_ && receives; ++r) {
    const Values theirs = values_of(action_, static_cast<int>(r), counts[r]);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  Memory& send = keep(values_of(action_, comm_.rank(), counts[self_]));
  Memory& recv = empty(all.size());
  if (action_.call == Call::kAllgatherv)
    comm_.allgatherv(send.view(), recv.view(), counts);
  else
    comm_.gatherv(send.view(), recv.view(), counts, action_.peer);
  recv.expect(all);
}

void CollectiveCall::scatter_uneven() {
  const auto counts = lengths();
  const auto first = [&](std::size_t r) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(r), std::size_t{0});
  };
  Memory& send = keep(is_root() ? values_of(action_, comm_.rank(), first(ranks_)) : Values());
  Memory& recv = empty(counts[self_]);
  comm_.scatterv(send.view(), counts, recv.view(), action_.peer);
  recv.expect(values_of(action_, action_.peer, counts[self_], first(self_)));
}

void CollectiveCall::alltoall_uneven() {
  const auto sends = lengths(self_);
  std::vector<std::size_t> receives;
  Values expected;
  for (std::size_t r = 0; r < ranks_; ++r) {
    const auto theirs = lengths(r);
    receives.push_back(theirs[self_]);
    const std::size_t first =
        std::accumulate(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(self_), std::size_t{0});
    const Values part = values_of(action_, static_cast<int>(r), receives.back(), first);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  Memory& send = keep(values_of(action_, comm_.rank(), std::accumulate(sends.begin(), sends.end(), std::size_t{0})));
  Memory& recv = empty(expected.size());
  comm_.alltoallv(send.view(), sends, recv.view(), receives);
  recv.expect(expected);
}

/// In memory from allocate(), which lies on the host.
void CollectiveCall::allreduce_allocated() {
  action_.on_device = false;
  Memory& memory = keep(reduction_inputs(action_, comm_.rank(), comm_.size(), action_.count));
  const std::size_t bytes = memory.view().bytes();
  const auto allocated = comm_.allocate(bytes);
  std::memcpy(allocated.get(), memory.view().data, bytes);
  comm_.allreduce(BufferView(allocated.get(), action_.count, action_.dtype), action_.op);
  std::memcpy(memory.view().data, allocated.get(), bytes);
  memory.expect(reduced(action_, comm_.size(), 0, action_.count));
  memories_.keep(allocated);
}

/// Gradients of two parameters. Some float16 have a finite mean and an infinite sum.
void CollectiveCall::gradients() {
  constexpr int kLarge = 32768;
  const bool is_large = action_.dtype == DType::kFloat16 && action_.id % 2 == 0;
  Values own = values_of(action_, comm_.rank(), action_.count);
  for (int& each : own) each = is_large ? kLarge : 2 * each;
  Memory& memory = keep(own);
  const std::size_t half = action_.count / 2;
  std::vector<BufferView> views = {memory.view().slice(0, half), memory.view().slice(half, action_.count - half)};
  if (!action_.in_place) std::swap(views[0], views[1]);
  comm_.sum_gradients(views, is_large ? 1.0 / comm_.size() : 0.5);
  memory.expect(is_large ? own : sums_of(action_, comm_.size()));
}

void CollectiveCall::objects() {
  using nlohmann::json;
  const int size = comm_.size();
  const std::string own = object_of(action_, comm_.rank());
  const auto all = objects_of_all(action_, size);
  const std::vector<std::string> none;
  switch (action_.call) {
    case Call::kBcastObject:
      EXPECT_EQ(comm_.bcast_obj(own, action_.peer), object_of(action_, action_.peer));
      return;
    case Call::kGatherObject:
      EXPECT_EQ(comm_.gather_obj(own, action_.peer), is_root() ? all : none);
      return;
    case Call::kAllgatherObject:
      EXPECT_EQ(comm_.allgather_obj(own), all);
      return;
    case Call::kScatterObject:
      EXPECT_EQ(comm_.scatter_obj(is_root() ? all : none, action_.peer), own);
      return;
    default:
      EXPECT_EQ(comm_.allreduce_obj(json{{"rank", comm_.rank()}, {"one", 1}}),
                (json{{"rank", size * (size - 1) / 2}, {"one", size}}));
  }
}

}  // namespace mn::testing
