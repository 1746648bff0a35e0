// Parts of NCCL's communicators, registered memory, and ranks that share a GPU, on the stand-in.
#include <cstdlib>

#include <gmock/gmock.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/gpu_fixture.hpp"
#include "tests/support/stand_in_gpu/calls.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OnDevice;
using testing::OnGpu;
using ::testing::ThrowsMessage;

class NcclSplit : public OnGpu {
 protected:
  NcclSplit() : splits_before_(splits()) {}
  ~NcclSplit() override { unsetenv("STAND_IN_NCCL_VERSION"); }

  [[nodiscard]] static long splits() { return stand_in::calls_of("ncclCommSplit"); }
  /// The sum over the ranks of `comm` of 1, of a few elements.
  [[nodiscard]] float ranks_of(Communicator& comm) const {
    const OnDevice<float> ones(std::vector<float>(100, 1), device_);
    comm.allreduce(ones.view());
    return ones.get()[99];
  }

  long splits_before_;
};

TEST_F(NcclSplit, IsNcclsOwn) {
  const auto comm = create("pure_nccl");
  const OnDevice<float> pending(std::vector<float>(3'000'000, 1), device_);
  comm->device_collectives()->allreduce(pending.view(), ReduceOp::kSum);  // NCCL cannot split before it is done
  const auto half = comm->split(rank_ % 2, -rank_);
  EXPECT_EQ(splits(), splits_before_ + 1);
  EXPECT_EQ(half->size(), (size_ + 1 - rank_ % 2) / 2);
  EXPECT_EQ(half->rank(), half->size() - 1 - rank_ / 2);
  EXPECT_EQ(ranks_of(*half), static_cast<float>(half->size()));
  const OnDevice<float> theirs(std::vector<float>(7, static_cast<float>(rank_)), device_);
  half->bcast(theirs.view(), 0);  // the highest of the half
  EXPECT_EQ(theirs.get()[0], static_cast<float>(rank_ + 2 * half->rank()));
  EXPECT_EQ(pending.get()[0], static_cast<float>(size_));
}

TEST_F(NcclSplit, TakesLimitsOfKernels) {
  const auto comm = create("pure_nccl");
  const auto limited = comm->split(0, rank_, {.max_ctas = 4, .cta_policy = 1});
  EXPECT_EQ(stand_in::limits_of_last_split().max_ctas, 4);
  EXPECT_EQ(stand_in::limits_of_last_split().cta_policy, 1);
  EXPECT_EQ(ranks_of(*limited), static_cast<float>(size_));
  static_cast<void>(comm->split(0, rank_));
  EXPECT_LT(stand_in::limits_of_last_split().max_ctas, 0) << "NCCL chooses";
}

TEST_F(NcclSplit, LeavesRanksOut) {
  const auto comm = create("pure_nccl");
  const auto part = comm->split(rank_ == 0 ? MPI_UNDEFINED : 7, rank_);
  EXPECT_EQ(splits(), splits_before_ + 1);
  EXPECT_EQ(part == nullptr, rank_ == 0);
  EXPECT_TRUE(part == nullptr || ranks_of(*part) == static_cast<float>(size_ - 1));
  EXPECT_EQ(ranks_of(*comm), static_cast<float>(size_));
}

TEST_F(NcclSplit, OfAnEarlierNcclIsMadeAnew) {
  setenv("STAND_IN_NCCL_VERSION", rank_ == size_ - 1 ? "21708" : "22809", 1);
  const auto comm = create("pure_nccl");
  const auto same = comm->split(0, rank_);
  EXPECT_EQ(splits(), splits_before_);
  EXPECT_EQ(ranks_of(*same), static_cast<float>(size_));
}

TEST_F(NcclSplit, DebugModeComparesTheOrderOfCommunicators_from_2_ranks) {
  const auto whole = create("pure_nccl", {}, /*debug=*/true);
  const auto same = whole->split(0, rank_);
  const auto sum = [&](Communicator& first, Communicator& second) {
    return static_cast<int>(ranks_of(first) + ranks_of(second));
  };
  const bool swaps = rank_ == size_ - 1;
  EXPECT_THAT([&] { static_cast<void>(sum(swaps ? *same : *whole, swaps ? *whole : *same)); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("has \"communicator "), HasSubstr("in the same order"))));
  EXPECT_EQ(sum(*whole, *same), 2 * size_);
}

/// Whole and parts may be destroyed in any order.
TEST_F(NcclSplit, PartsOutliveTheWhole) {
  auto comm = create("pure_nccl");
  auto part = comm->split(0, rank_);
  auto part_of_part = part->split(0, rank_);
  comm->finalize();
  comm.reset();
  EXPECT_EQ(ranks_of(*part), static_cast<float>(size_));
  part->finalize();
  EXPECT_EQ(ranks_of(*part_of_part), static_cast<float>(size_));
}

/// An error aborts only its own communicator.
TEST_F(NcclSplit, ErrorsStayWithTheirCommunicator) {
  for (const bool whole_fails : {false, true}) {
    const auto comm = create("pure_nccl");
    const auto part = comm->split(0, rank_);
    Communicator& failing = whole_fails ? *comm : *part;
    Communicator& other = whole_fails ? *part : *comm;
    stand_in::fail_call("ncclAllReduce", 1);
    EXPECT_THAT([&] { static_cast<void>(ranks_of(failing)); },
                ThrowsMessage<CommError>(AllOf(HasSubstr("NCCL allreduce"), HasSubstr("failed"))));
    EXPECT_THROW(static_cast<void>(ranks_of(failing)), CommError) << "aborted";
    EXPECT_EQ(ranks_of(other), static_cast<float>(size_));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// The program's own value stays, and an NCCL that does not know the variable gets none.
TEST_F(OnGpu, TheOrderOfLaunchesIsThatOfTheHost) {
  const auto value_after = [&](const char* version) {
    setenv("STAND_IN_NCCL_VERSION", version, 1);
    static_cast<void>(create("pure_nccl"));
    unsetenv("STAND_IN_NCCL_VERSION");
    const char* const value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return std::string(value == nullptr ? "unset" : value);
  };
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  EXPECT_EQ(value_after("22507"), "unset");
  EXPECT_EQ(value_after("22602"), "1");
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  EXPECT_EQ(value_after("22809"), "0");
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

/// A rank whose split fails reports the failure; other ranks wait no longer than NCCL's time-out.
TEST_F(NcclSplit, AFailureLeavesNoRankWaiting) {
  setenv("MN_NCCL_TIMEOUT", "1", 1);
  const auto comm = create("pure_nccl");
  unsetenv("MN_NCCL_TIMEOUT");
  if (rank_ == size_ - 1) stand_in::fail_call("ncclCommSplit", 1);
  EXPECT_THAT([&] { static_cast<void>(comm->split(0, rank_)); }, ThrowsMessage<CommError>(HasSubstr("NCCL split")));
  MPI_Barrier(MPI_COMM_WORLD);
}

/// As for a split, when a communicator is made.
TEST_F(OnGpu, ABeginningThatFailsLeavesNoRankWaiting) {
  setenv("MN_NCCL_TIMEOUT", "1", 1);
  if (rank_ == size_ - 1) stand_in::fail_call("ncclCommInitRank", 1);
  EXPECT_THAT([&] { static_cast<void>(create("pure_nccl")); },
              ThrowsMessage<CommError>(HasSubstr(rank_ == size_ - 1 ? "that was asked for" : "has not ended in 1 s")));
  unsetenv("MN_NCCL_TIMEOUT");
  MPI_Barrier(MPI_COMM_WORLD);
}

class Registered : public OnGpu {
 protected:
  Registered() { setenv("STAND_IN_WINDOWS", "1", 1); }
  ~Registered() override {
    unsetenv("STAND_IN_WINDOWS");
    unsetenv("MN_NCCL_WINDOWS");
    unsetenv("STAND_IN_NCCL_VERSION");
  }
  static long open_windows() {
    return stand_in::calls_of("ncclCommWindowRegister") - stand_in::calls_of("ncclCommWindowDeregister");
  }
  /// Memory of a new communicator, or null.
  [[nodiscard]] std::shared_ptr<std::byte> memory() {
    comm_ = create("pure_nccl");
    return comm_->device_collectives()->allocate(4100);
  }

  std::shared_ptr<Communicator> comm_;
  long before_ = open_windows();
};

TEST_F(Registered, MemoryIsAWindowUntilItsEndOrTheCommunicators) {
  setenv("MN_NCCL_WINDOWS", "on", 1);
  for (const bool memory_ends_first : {true, false}) {
    auto owned = memory();
    EXPECT_EQ(owned != nullptr, size_ > 1);
    EXPECT_EQ(open_windows(), before_ + (size_ > 1 ? 1 : 0));
    if (owned) comm_->allreduce(BufferView(owned.get(), 1025, DType::kFloat32, device_));
    if (memory_ends_first) owned.reset();
    comm_.reset();
    EXPECT_EQ(open_windows(), before_);
  }
}

TEST_F(Registered, AllRanksChooseAlike) {
  const auto owned = memory();
  std::vector<int> ranks{owned != nullptr ? 1 : 0};
  comm_->allreduce(ranks);
  EXPECT_TRUE(ranks[0] == 0 || ranks[0] == size_) << ranks[0];
}

TEST_F(Registered, OrdinaryMemoryServesWhereARankCannotRegister_from_2_ranks) {
  setenv("STAND_IN_NCCL_VERSION", rank_ == 0 ? "22600" : "22809", 1);
  EXPECT_EQ(memory(), nullptr) << "before 2.27";
  unsetenv("STAND_IN_NCCL_VERSION");
  setenv("MN_NCCL_WINDOWS", rank_ == 0 ? "off" : "on", 1);
  EXPECT_EQ(memory(), nullptr);
  setenv("MN_NCCL_WINDOWS", "on", 1);
  for (const char* call : {"ncclMemAlloc", "ncclCommWindowRegister"}) {
    if (rank_ == 0) stand_in::fail_call(call, 1);
    EXPECT_EQ(memory(), nullptr) << call;
  }
  EXPECT_NE(memory(), nullptr);
  unsetenv("STAND_IN_WINDOWS");
  EXPECT_EQ(memory(), nullptr) << "no NVLink";
}

class SharedGpu : public OnGpu {
 protected:
  SharedGpu() { device_ = {DeviceType::kCuda, rank_ / 2}; }
  ~SharedGpu() override { unsetenv("STAND_IN_NCCL_VERSION"); }
};

TEST_F(SharedGpu, GoesByNcclFrom2_30_3On_from_2_ranks) {
  EXPECT_THROW(static_cast<void>(create("pure_nccl")), UsageError);
  EXPECT_EQ(create("auto")->name(), "flat");
  setenv("STAND_IN_NCCL_VERSION", "23002", 1);
  EXPECT_EQ(create("auto")->name(), "flat");
  setenv("STAND_IN_NCCL_VERSION", "23003", 1);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  EXPECT_EQ(create("auto")->name(), "flat");
  EXPECT_THROW(static_cast<void>(create("pure_nccl")), UsageError);
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  setenv("STAND_IN_NCCL_VERSION", rank_ == 0 ? "23002" : "23003", 1);
  EXPECT_EQ(create("auto")->name(), "flat") << "rank 0's NCCL can't";
  setenv("STAND_IN_NCCL_VERSION", "23003", 1);
  const auto comm = create("auto");
  EXPECT_EQ(comm->name(), "pure_nccl");
  const auto buffer = mine<float>(1027);
  comm->allreduce(buffer.view());
  expect_sums(buffer, 1);
}

}  // namespace
}  // namespace mn
