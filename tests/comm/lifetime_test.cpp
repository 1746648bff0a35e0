// Communicators and their memory leave nothing behind. MPI's handles are counted through its profiling interface: the
// program's MPI_… functions replace the library's.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/count_limit.hpp"

namespace {

/// Live handles of MPI.
struct Alive {
  std::atomic<int> communicators{0};
  std::atomic<int> requests{0};
  std::atomic<int> types{0};
} alive;

}  // namespace

extern "C" {
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++alive.communicators;
  return PMPI_Comm_dup(comm, copy);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  if (color != MPI_UNDEFINED) ++alive.communicators;
  return PMPI_Comm_split(comm, color, key, part);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  ++alive.communicators;
  return PMPI_Comm_split_type(comm, type, key, info, part);
}
int MPI_Comm_free(MPI_Comm* comm) {
  --alive.communicators;
  return PMPI_Comm_free(comm);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  ++alive.requests;
  return PMPI_Isend(data, count, type, dest, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  ++alive.requests;
  return PMPI_Irecv(data, count, type, source, tag, comm, request);
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (*request != MPI_REQUEST_NULL) --alive.requests;
  return PMPI_Wait(request, status);
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status* statuses) {
  alive.requests -= static_cast<int>(count - std::count(requests, requests + count, MPI_REQUEST_NULL));
  return PMPI_Waitall(count, requests, statuses);
}
int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype* type) {
  ++alive.types;
  return PMPI_Type_contiguous(count, old, type);
}
int MPI_Type_create_struct(int count, const int lengths[], const MPI_Aint offsets[], const MPI_Datatype types[],
                           MPI_Datatype* type) {
  ++alive.types;
  return PMPI_Type_create_struct(count, lengths, offsets, types, type);
}
int MPI_Type_create_resized(MPI_Datatype old, MPI_Aint low, MPI_Aint extent, MPI_Datatype* type) {
  ++alive.types;
  return PMPI_Type_create_resized(old, low, extent, type);
}
int MPI_Type_free(MPI_Datatype* type) {
  --alive.types;
  return PMPI_Type_free(type);
}
}

namespace mn {
namespace {

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

std::vector<int> handles() { return {alive.communicators, alive.requests, alive.types}; }

std::ptrdiff_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

/// Enough to exhaust MPI's communicator numbers, file descriptors or mappings, if any were kept.
constexpr int kCycles = 1000;

/// One life of a communicator, with calls of every kind. Backends and ways to end take turns.
void live_once(int cycle) {
  constexpr std::size_t kFloats = 20'000;
  const char* const names[] = {"hierarchical", "flat", "two_dimensional", "naive", "single_node", "dummy"};
  CommunicatorOptions options;
  options.device = Device();
  const CountLimit limit(cycle % 3 == 0 ? 5000 : INT_MAX);
  const auto comm = create_communicator(names[cycle % 6], MPI_COMM_WORLD, options);
  {
    const auto memory = comm->allocate(kFloats * sizeof(float));
    comm->allreduce(BufferView(memory.get(), kFloats, DType::kFloat32));
    comm->bcast(BufferView(memory.get(), kFloats, DType::kFloat32));
  }
  if (cycle % 10 == 0) {
    CommunicationThread thread(*comm);
    thread.submit([](Communicator& other) { other.barrier(); });
    thread.wait();
  }
  if (cycle % 2 == 0) comm->finalize();
}

TEST(Lifetime, AThousandCommunicatorsLeaveNothing) {
  for (int i = 0; i < 30; ++i) live_once(i);  // for resources that MPI keeps
  MPI_Barrier(MPI_COMM_WORLD);
  const auto held = handles();
  const auto descriptors = entries("/proc/self/fd");
  const auto mapped = mappings();
  const auto shared = entries("/dev/shm");
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kCycles; ++i) live_once(i);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(handles(), held) << "communicators, requests, types";
  EXPECT_GT(held[0], 0) << "MPI's calls are counted";
  EXPECT_LE(entries("/proc/self/fd"), descriptors);
  EXPECT_LT(mappings(), mapped + kCycles / 4) << "a leak is two a cycle and rank; the allocator adds a few";
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

TEST(Lifetime, AFinalizedCommunicatorRefusesEveryCall) {
  CommunicatorOptions options;
  options.device = Device();
  for (const auto& name : {"naive", "two_dimensional"}) {
    const auto comm = create_communicator(name, MPI_COMM_WORLD, options);
    const auto memory = comm->allocate(64);
    comm->finalize();
    comm->finalize();  // does nothing
    std::vector<float> two(2);
    EXPECT_THROW(comm->allreduce(two), ArgumentError);
    EXPECT_THROW(comm->sum_gradients(std::vector<BufferView>{two}, 1.0), ArgumentError);
    EXPECT_THROW(comm->bcast(two), ArgumentError);
    EXPECT_THROW(comm->gather(two, two), ArgumentError);
    EXPECT_THROW(comm->allgather(two, two), ArgumentError);
    EXPECT_THROW(comm->scatter(two, two), ArgumentError);
    EXPECT_THROW(comm->alltoall(two, two), ArgumentError);
    EXPECT_THROW(comm->reduce_scatter(two, two), ArgumentError);
    EXPECT_THROW(comm->send(two, 0), ArgumentError);
    EXPECT_THROW(comm->recv(two, 0), ArgumentError);
    EXPECT_THROW(comm->barrier(), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm->split(0, 0)), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm->allocate(8)), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm->allreduce_obj(1)), ArgumentError);
    EXPECT_THROW(comm->send_obj(std::string(), 0), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm->recv_obj(0)), ArgumentError);
    EXPECT_THROW(static_cast<void>(create_communicator(name, comm->mpi_comm())), ArgumentError);
    std::fill_n(memory.get(), 64, std::byte{1});
  }
}

/// MPI may still work on its memory.
TEST(Lifetime, ACommunicatorThatGaveUpIsNeverFreed) {
  auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
  const int before = alive.communicators;
  comm->abort("no more data");
  comm.reset();
  EXPECT_EQ(alive.communicators, before);
}

/// MPI may still write to memory of a call that was given up.
TEST(KeptForMpi, OutlivesAnExceptionAlone) {
  const auto watched = std::make_shared<int>(1);
  try {
    const KeptForMpi kept(watched);
    throw std::runtime_error("a call that is given up");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(watched.use_count(), 2);
  { const KeptForMpi kept(watched); }
  EXPECT_EQ(watched.use_count(), 2);
}

}  // namespace
}  // namespace mn
