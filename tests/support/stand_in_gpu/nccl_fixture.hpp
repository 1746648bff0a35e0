/// Tests of the stand-in's NCCL, each rank with a GPU of its own.
#pragma once

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

#include "tests/comm/device_memory.hpp"
#include "tests/support/cuda_streams.hpp"

namespace mn::testing {

class OnNccl : public ::testing::Test {
 protected:
  OnNccl() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    device_ = {DeviceType::kCuda, rank_};
    EXPECT_EQ(cudaSetDevice(rank_), cudaSuccess);
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
  }

  [[nodiscard]] ncclUniqueId shared_id() const {
    ncclUniqueId id{};
    if (rank_ == 0) {
      EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    }
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return id;
  }
  [[nodiscard]] ncclComm_t create() const {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, size_, shared_id(), rank_), ncclSuccess) << ncclGetLastError(nullptr);
    return comm;
  }
  [[nodiscard]] bool am_last() const { return rank_ == size_ - 1; }
  [[nodiscard]] OnDevice<float> ones(std::size_t count = 8) const { return {std::vector<float>(count, 1), device_}; }

  int rank_ = 0;
  int size_ = 1;
  Device device_;
};

/// The communicator's state once it is not `state` any more; `state` after ten seconds.
inline ncclResult_t state_after(ncclResult_t state, ncclComm_t comm) {
  ncclResult_t now = state;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (now == state && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &now), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return now;
}

}  // namespace mn::testing
