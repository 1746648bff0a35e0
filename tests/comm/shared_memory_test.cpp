// Memory that ranks share: contents, release at any time, and failures of one rank.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/node/shared_memory.hpp>
#include <mn/comm/node/shared_reducer.hpp>
#include <mn/core/log.hpp>

#include "tests/comm/count_limit.hpp"
#include "tests/comm/failing_shared_memory.hpp"

namespace mn {
namespace {

constexpr std::size_t kFloats = 5000;  // more than a small message

/// Released when the process ends, after MPI_Finalize.
std::shared_ptr<std::byte> kept_to_the_end;

std::shared_ptr<Communicator> create() {
  return create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
}

/// The rank's names that still exist.
std::vector<std::string> names_left() {
  std::vector<std::string> left;
  for (const auto& name : names_made) {
    if (access(("/dev/shm" + name).c_str(), F_OK) == 0) left.push_back(name);
  }
  return left;
}

/// Mappings of mn's shared memory in the process.
std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/dev/shm/mn.") != std::string::npos ? 1 : 0;
  return count;
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  ~SharedMemoryTest() override {
    comm_->barrier();
    EXPECT_EQ(names_left(), std::vector<std::string>());
  }

  /// The sum of rank + 1 over the ranks, in `memory` of every rank.
  void expect_sum(std::byte* memory) {
    const std::span values(reinterpret_cast<float*>(memory), kFloats);
    std::ranges::fill(values, static_cast<float>(comm_->rank() + 1));
    comm_->allreduce(values);
    const auto sum = static_cast<float>(comm_->size() * (comm_->size() + 1) / 2);
    EXPECT_EQ(std::ranges::count(values, sum), static_cast<std::ptrdiff_t>(kFloats));
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate() { return comm_->allocate(kFloats * sizeof(float)); }
  /// Whether all ranks share `memory`.
  [[nodiscard]] bool is_shared(const std::shared_ptr<std::byte>& memory) {
    return comm_->share(std::vector<BufferView>{{memory.get(), kFloats, DType::kFloat32}}) != nullptr;
  }
  [[nodiscard]] bool is_last() const { return comm_->rank() == comm_->size() - 1; }

  std::shared_ptr<Communicator> comm_ = create();
};

/// Reductions of all sizes, in memory of every kind, on one node and on two.
void expect_sums(const std::string& backend, int nodes) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("MN_NODE_NAME", ("node" + std::to_string(rank % nodes)).c_str(), 1);
  const CountLimit limit(70'000);
  const auto comm = create_communicator(backend, MPI_COMM_WORLD, {.device = Device{}});
  unsetenv("MN_NODE_NAME");
  for (const std::size_t count : {5UL, 30'000UL, 1UL, 1'500'001UL, 4'097UL, 80'000UL}) {
    const auto memory = comm->allocate(count * sizeof(float));
    std::vector<float> own(count);
    for (const std::span values : {std::span(own), std::span(reinterpret_cast<float*>(memory.get()), count)}) {
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i % 11) * (comm->rank() + 1));
      comm->allreduce(values);
      int wrong = 0;
      const int sum = comm->size() * (comm->size() + 1) / 2;
      for (std::size_t i = 0; i < count; ++i) wrong += values[i] != static_cast<float>((i % 11) * sum);
      EXPECT_EQ(wrong, 0) << backend << " on " << nodes << " nodes, " << count << " elements, room " << room;
    }
  }
}

TEST_F(SharedMemoryTest, OfEverySizeWillDo) {
  static_cast<void>(take_warnings());
  for (const off_t each : {1'000'000, 200'000, 20'000, 0}) {
    for (const bool everywhere : {true, false}) {
      if (everywhere || is_last()) room = each;
      for (const int nodes : {1, 2}) {
        for (const char* backend : {"hierarchical", "two_dimensional"}) expect_sums(backend, nodes);
      }
      room = std::numeric_limits<off_t>::max();
    }
  }
  const auto warnings = take_warnings();
  EXPECT_LE(warnings.size(), 1U) << "one line, whatever is missing";
  if (comm_->rank() == 0) {
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("--shm-size"), std::string::npos) << warnings[0];
  }
}

TEST_F(SharedMemoryTest, IsZeroedAlignedAndVisibleToAll) {
  constexpr std::size_t kBytes = 10'000;
  const auto before = mappings();
  const SharedMemory memory(comm_->mpi_comm(), kBytes);
  EXPECT_EQ(mappings(), before + 1) << "one mapping, however many ranks";
  EXPECT_EQ(memory.bytes(), kBytes);
  for (int r = 0; r < comm_->size(); ++r) {
    const std::byte* segment = memory.segment(r);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment) % 64, 0U);
    EXPECT_EQ(std::count(segment, segment + kBytes, std::byte{0}), static_cast<std::ptrdiff_t>(kBytes));
  }
  comm_->barrier();
  const auto value_of = [](int writer, int owner) { return static_cast<std::byte>(1 + 16 * owner + writer); };
  for (int r = 0; r < comm_->size(); ++r) memory.segment(r)[comm_->rank()] = value_of(comm_->rank(), r);
  comm_->barrier();
  for (int owner = 0; owner < comm_->size(); ++owner) {
    for (int r = 0; r < comm_->size(); ++r) EXPECT_EQ(memory.segment(owner)[r], value_of(r, owner));
  }
}

/// Bytes of the process's mn shared memory that are mapped by huge pages.
std::size_t huge_bytes() {
  std::ifstream maps("/proc/self/smaps");
  std::size_t kib = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" r") != std::string::npos && line.find('-') < 20) is_ours = line.find("/dev/shm/mn.") != line.npos;
    if (is_ours && line.starts_with("ShmemPmdMapped:")) kib += std::strtoul(line.c_str() + 15, nullptr, 10);
  }
  return kib * 1024;
}

TEST_F(SharedMemoryTest, OfMebibytesLiesWhereHugePagesFit) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const auto before = huge_bytes();
  const SharedMemory memory(comm_->mpi_comm(), 2 * kHuge + 5000);
  for (int r = 0; r < comm_->size(); ++r) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.segment(r)) % kHuge, 0U) << "segment " << r;
    memory.segment(r)[comm_->rank()] = std::byte{1};
  }
  comm_->barrier();
  // The kernel may have no huge pages to spare.
  RecordProperty("huge_mebibytes", static_cast<int>((huge_bytes() - before) >> 20));
}

TEST_F(SharedMemoryTest, TakesNoBytesToo) {
  const SharedMemory memory(comm_->mpi_comm(), 0);
  EXPECT_EQ(memory.bytes(), 0U);
  EXPECT_NE(comm_->allocate(0), nullptr);
}

TEST_F(SharedMemoryTest, AThousandReleasesInAnyOrder) {
  constexpr int kAllocations = 1000;
  constexpr std::size_t kHeld = 12;
  std::mt19937 random(static_cast<unsigned>(comm_->rank()));
  std::vector<float> elsewhere(kFloats);
  expect_sum(reinterpret_cast<std::byte*>(elsewhere.data()));  // maps shared scratch memory
  const auto before = mappings();
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < kAllocations; ++i) {
    held.push_back(allocate());
    if (i % 50 == 0) expect_sum(held.back().get());
    // Buffers of different allocations, some of them released by a peer.
    if (i % 50 == 25) expect_sum(held[random() % held.size()].get());
    if (held.size() > kHeld) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
  }
  std::ranges::shuffle(held, random);
  while (!held.empty()) held.pop_back();
  EXPECT_EQ(mappings(), before);
}

TEST_F(SharedMemoryTest, IsReleasedByAnExceptionOnOneRank) {
  auto common = allocate();
  const auto before = mappings();
  try {
    const auto mine = std::exchange(common, nullptr);
    const auto reducer = comm_->share(std::vector<BufferView>{{mine.get(), kFloats, DType::kFloat32}});
    if (is_last()) throw std::runtime_error("on this rank alone");
    common = mine;
  } catch (const std::runtime_error&) {
  }
  if (is_last()) {
    EXPECT_EQ(mappings(), before - 1);
    std::vector<float> elsewhere(kFloats);
    expect_sum(reinterpret_cast<std::byte*>(elsewhere.data()));
  } else {
    expect_sum(common.get());
  }
  expect_sum(allocate().get());
}

TEST_F(SharedMemoryTest, OutlivesItsCommunicator) {
  const auto other = create();
  const auto memory = other->allocate(kFloats * sizeof(float));
  other->finalize();
  expect_sum(memory.get());
  kept_to_the_end = allocate();
}

TEST_F(SharedMemoryTest, GivesWayToOrdinaryMemoryWhereOneRankHasNoRoom) {
  const bool is_one = comm_->size() == 1;
  EXPECT_NE(is_shared(allocate()), is_one);
  const auto before = mappings();
  rlimit normal = {};
  getrlimit(RLIMIT_FSIZE, &normal);
  rlimit small = normal;
  small.rlim_cur = 4096;
  if (is_last()) setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(SharedMemory(comm_->mpi_comm(), kFloats), NoSharedMemory);
  const auto memory = allocate();
  EXPECT_EQ(mappings(), before);
  if (is_last()) setrlimit(RLIMIT_FSIZE, &normal);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U);
  EXPECT_FALSE(is_shared(memory));
  expect_sum(memory.get());
  EXPECT_NE(is_shared(allocate()), is_one) << "there is room again";
}

TEST_F(SharedMemoryTest, IsTakenByNeed) {
  most_asked_for = 0;
  const auto other = create();
  std::vector<float> values(1'000'000);
  other->allreduce(std::span(values).first(100));
  EXPECT_LT(most_asked_for, 20'000);
  other->allreduce(std::span(values).first(30'000));
  EXPECT_LE(most_asked_for, 1 << 17);
  other->allreduce(values);
  EXPECT_LE(most_asked_for, 1 << 20);
}

TEST_F(SharedMemoryTest, FailsOnAllRanksTogether) {
  const auto before = mappings();
  for (bool* fault : {&fail_to_make, &fail_to_open}) {
    const int failing = fault == &fail_to_make ? 0 : comm_->size() - 1;
    *fault = comm_->rank() == failing;
    std::string what;
    try {
      const SharedMemory memory(comm_->mpi_comm(), 100);
    } catch (const NoSharedMemory& error) {
      what = error.what();
    }
    *fault = false;
    EXPECT_EQ(what, "cannot share 100 bytes of each of " + std::to_string(comm_->size()) + " ranks in /dev/shm (rank " +
                        std::to_string(failing) +
                        " of the node: " + std::strerror(fault == &fail_to_make ? EMFILE : ENOENT) + ")");
    EXPECT_EQ(mappings(), before);
    expect_sum(allocate().get());
  }
}

}  // namespace
}  // namespace mn
