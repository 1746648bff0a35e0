// How collective calls agree on forms: changed shapes, calls that differ, passes of FixedForms; and the calls on a
// device against the CPU's.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/torch.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/fixed_forms.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace {

int allgathers = 0;  // of this process

}  // namespace

/// Counts, in place of MPI's own.
extern "C" int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
                             MPI_Datatype recv_type, MPI_Comm comm) {
  ++allgathers;
  return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
}

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

class FormsTest : public test::DeviceCases {
 protected:
  [[nodiscard]] at::Tensor rows_of(int rank, std::int64_t rows) const {
    return torch::arange(rows * 2, at::kFloat).view({rows, 2}).add(10 * rank).to(c10::Device(comm_->device()));
  }
  /// The same ranks, with a limit to every call.
  [[nodiscard]] std::shared_ptr<Communicator> limited() const {
    auto comm = comm_->split(0, rank_);
    comm->set_timeout(std::chrono::seconds(20));
    return comm;
  }
};

/// In a step, one rank alone has another number of rows than in the step before.
TEST_P(FormsTest, AChangedShapeIsNoticedByAllRanks) {
  for (int step = 0; step < 2 * (size_ + 1); ++step) {
    const auto rows = [&](int rank) { return rank == step % (size_ + 1) ? 0 : 3; };
    Tensors all;
    for (int r = 0; r < size_; ++r) all.push_back(rows_of(r, rows(r)));
    EXPECT_TRUE(all_gather(comm_, rows_of(rank_, rows(rank_))).equal(torch::cat(all))) << step;
  }
}

TEST_P(FormsTest, KnownFormsAreNotSentAgain_from_2_ranks) {
  const auto count = [&](const auto& call) {
    const int before = allgathers;
    call();
    return allgathers - before;
  };
  const at::Tensor x = rows_of(rank_, 77);
  EXPECT_EQ(count([&] { static_cast<void>(all_reduce(comm_, x)); }), 2);
  EXPECT_EQ(count([&] { static_cast<void>(all_reduce(comm_, x)); }), 1);
  FixedForms forms;
  for (const int expected : {1, 0, 0}) {
    const auto pass = forms.pass();
    EXPECT_EQ(count([&] { static_cast<void>(all_reduce(comm_, x)); }), expected);
  }
}

TEST_P(FormsTest, CallsThatDifferAreNamedOnAllRanks_from_2_ranks) {
  const at::Tensor x = rows_of(rank_, 3);
  EXPECT_THAT([&] { static_cast<void>(rank_ == 1 ? all_reduce(comm_, x) : all_gather(comm_, x)); },
              ThrowsMessage<ArgumentError>(HasSubstr("rank 0 called all_gather, rank 1 called all_reduce")));
}

TEST_P(FormsTest, PassesOfFixedFormsGiveWhatTheCallsGive) {
  FixedForms forms;
  for (int step = 0; step < 3; ++step) {
    const auto pass = forms.pass();
    const at::Tensor x = (rows_of(rank_, rank_) + step).requires_grad_();
    Tensors all;
    for (int r = 0; r < size_; ++r) all.push_back(rows_of(r, r) + step);
    const at::Tensor whole = all_gather(comm_, x);
    EXPECT_TRUE(whole.equal(torch::cat(all)));
    all_reduce(comm_, whole * (rank_ + 1)).sum().backward();
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, size_ * size_ * (size_ + 1) / 2)));
  }
}

TEST_P(FormsTest, AnotherFormInAPassEndsAllRanks_from_2_ranks) {
  const auto comm = limited();
  FixedForms forms;
  const auto gather = [&](std::int64_t rows) {
    const auto pass = forms.pass();
    return all_gather(comm, rows_of(rank_, rows)).sum().item<float>();
  };
  gather(2), gather(2);
  comm_->barrier();  // abort() would end the call of an earlier pass on a rank that has not left this call yet
  const std::string reason =
      "rank 1 called all_gather of Float [3,2] in a pass of mn::FixedForms, in place of "
      "all_gather of Float [2,2] in the first pass";
  if (rank_ == 1) {
    EXPECT_THAT([&] { gather(3); }, ThrowsMessage<ArgumentError>(HasSubstr(reason)));
  } else if (GetParam() == DeviceType::kCpu) {
    EXPECT_THAT([&] { gather(2); }, ThrowsMessage<CommError>(HasSubstr(reason)));
  }
}

TEST_P(FormsTest, AMissingCallIsNamedInTheNextPass) {
  FixedForms forms;
  for (const int calls : {2, 1}) {
    const auto pass = forms.pass();
    for (int i = 0; i < calls; ++i) static_cast<void>(all_reduce(comm_, rows_of(rank_, 2)));
    EXPECT_THROW(static_cast<void>(forms.pass()), ArgumentError);  // inside another pass
  }
  EXPECT_THAT([&] { static_cast<void>(forms.pass()); },
              ThrowsMessage<ArgumentError>(HasSubstr("the last pass of mn::FixedForms made 1 calls, the first 2")));
}

/// A call, and the shape of tensor i of rank r.
struct Case {
  std::function<Tensors(const std::shared_ptr<Communicator>& comm, const Tensors& given)> call;
  int count;
  std::function<std::int64_t(int r, int i)> rows;
};

TEST_P(FormsTest, ADeviceGivesWhatTheCpuGives) {
  const int last = size_ - 1;
  const std::vector<Case> cases = {
      {[](auto& comm, auto& given) { return Tensors{all_gather(comm, given[0])}; }, 1, [](int r, int) { return r; }},
      {[](auto& comm, auto& given) { return Tensors{all_reduce(comm, given[0])}; }, 1, [](int, int) { return 3; }},
      {[](auto& comm, auto& given) { return Tensors{reduce_scatter(comm, given)}; }, size_,
       [](int, int i) { return i; }},
      {[=](auto& comm, auto& given) { return Tensors{broadcast(comm, given[0], last)}; }, 1,
       [](int, int) { return 2; }},
      {[](auto& comm, auto& given) { return allgather(comm, given[0]); }, 1, [](int r, int) { return r; }},
      {[=](auto& comm, auto& given) { return Tensors{reduce(comm, given[0], last)}; }, 1, [](int, int) { return 2; }},
      {[=](auto& comm, auto& given) { return gather(comm, given[0], last); }, 1, [](int r, int) { return r; }},
      {[=](auto& comm, auto& given) { return Tensors{scatter(comm, given, last)}; }, size_,
       [](int, int i) { return i; }},
      {[](auto& comm, auto& given) { return alltoall(comm, given); }, size_, [](int r, int i) { return (r + i) % 3; }}};
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    for (const Case& each : cases) {
      const auto results_on = [&](const std::shared_ptr<Communicator>& comm) {
        Tensors given, results;
        for (int i = 0; i < each.count; ++i) {
          const std::int64_t rows = each.rows(rank_, i);
          const at::Tensor values = torch::arange(rows * 3).view({rows, 3}).remainder(5).add(rank_ + i);
          given.push_back(values.to(c10::Device(comm->device()), dtype).requires_grad_());
        }
        at::Tensor loss = torch::zeros({}, c10::Device(comm->device()));
        for (const at::Tensor& result : each.call(comm, given)) {
          results.push_back(result.detach());
          loss = loss + (result.to(at::kFloat) * (rank_ + 1)).sum();
        }
        loss.backward();
        for (const at::Tensor& x : given) results.push_back(x.grad());
        return results;
      };
      const Tensors expected = results_on(test::shared_comm(DeviceType::kCpu)), found = results_on(comm_);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].defined(), expected[i].defined());
        if (!found[i].defined()) continue;
        EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type());
        EXPECT_TRUE(found[i].cpu().equal(expected[i])) << i << found[i].cpu() << expected[i];
      }
    }
  }
}

/// Messages with and without a tag, and of no elements. A device takes those without a tag in the order of the sends.
TEST_P(FormsTest, TensorsAreSentFromDeviceToDevice_from_2_ranks) {
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  for (const int tag : {0, 5}) {
    for (const std::int64_t rows : {0, 3}) {
      if (rank_ == 0) send_tensor(*comm_, rows_of(rank_, rows), next, tag);
      const at::Tensor received = recv_tensor(*comm_, before, tag);
      if (rank_ != 0) send_tensor(*comm_, rows_of(rank_, rows), next, tag);
      EXPECT_TRUE(received.equal(rows_of(before, rows)));
    }
  }
}

/// As if this rank had missed a message, whose elements it would then take for this message's.
TEST_P(FormsTest, AMessageOutOfOrderIsAnError_from_2_ranks) {
  DeviceCollectives* const device = comm_->device_collectives();
  if (device == nullptr) return;  // MPI keeps the order
  if (rank_ == 1) send_tensor(*comm_, rows_of(1, 2), 0);
  if (rank_ == 0) {
    ++device->messages(/*sent=*/false, 1);
    EXPECT_THAT([&] { static_cast<void>(recv_tensor(*comm_, 1)); },
                ThrowsMessage<CommError>(HasSubstr("receive tensors of a device in the order in which they are sent")));
    --device->messages(/*sent=*/false, 1);
    const at::Tensor elements = torch::empty_like(rows_of(1, 2));
    ordered_recv(*comm_, elements, 1, 0, /*enqueued=*/true);
    EXPECT_TRUE(elements.equal(rows_of(1, 2)));
  }
}

INSTANTIATE_TEST_SUITE_P(On, FormsTest, ::testing::ValuesIn(test::kDeviceTypes), test::name_of_device);

}  // namespace
}  // namespace mn
