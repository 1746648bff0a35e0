// Communicators, their windows and their memory come and go without leaving anything behind.
#include <algorithm>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

namespace mn {
namespace {

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

/// Enough to run out of MPI's communicator numbers, file descriptors or mappings if any were kept.
constexpr int kCycles = 1000;

TEST(Lifetime, AThousandCommunicatorsLeaveNothing) {
  CommunicatorOptions options;
  options.device = Device();
  const auto cycle = [&](int i) {
    const auto comm = create_communicator(i % 2 == 0 ? "hierarchical" : "flat", MPI_COMM_WORLD, options);
    const auto memory = comm->allocate(100'000);
    comm->allreduce(BufferView(memory.get(), 20'000, DType::kFloat32));
  };
  for (int i = 0; i < 4; ++i) cycle(i);  // what MPI sets up once
  MPI_Barrier(MPI_COMM_WORLD);
  const auto descriptors = entries("/proc/self/fd");
  const auto shared = entries("/dev/shm");
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kCycles; ++i) cycle(i);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_LE(entries("/proc/self/fd"), descriptors);
  EXPECT_LT(entries("/dev/shm"), shared + kCycles / 4) << "a leak is one a cycle; other programs add a few";
}

TEST(Lifetime, MemoryOutlivesItsCommunicator) {
  CommunicatorOptions options;
  options.device = Device();
  auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, options);
  const auto memory = comm->allocate(4096);
  comm.reset();
  std::fill_n(memory.get(), 4096, std::byte{1});
  EXPECT_EQ(memory.get()[4095], std::byte{1});
}

}  // namespace
}  // namespace mn
