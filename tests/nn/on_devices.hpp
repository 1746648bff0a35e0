// Cases that run on the CPU, and also on a device if the program has one: a GPU, which ranks may share, or the test
// device.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>

namespace mn::test {

inline constexpr DeviceType kDeviceTypes[] = {DeviceType::kCpu, DeviceType::kCuda};

inline std::string name_of_device(const ::testing::TestParamInfo<DeviceType>& info) {
  return info.param == DeviceType::kCpu ? "Cpu" : "Device";
}

/// One communicator of each kind for all cases, because NCCL needs a second to make and to destroy one.
inline std::shared_ptr<Communicator> shared_comm(DeviceType type) {
  static auto& all = *new std::map<DeviceType, std::shared_ptr<Communicator>>;
  std::shared_ptr<Communicator>& comm = all[type];
  if (comm) return comm;
  if (type == DeviceType::kCpu) return comm = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);  // to NCCL ranks that share a GPU are hosts of their own
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  return comm = create_communicator("pure_nccl", MPI_COMM_WORLD,
                                    {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
}

/// Cases that run on each of kDeviceTypes.
class DeviceCases : public ::testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceType::kCuda && cuda_device_count() == 0) GTEST_SKIP() << "needs a device";
    comm_ = shared_comm(GetParam());
    rank_ = comm_->rank(), size_ = comm_->size();
  }

  std::shared_ptr<Communicator> comm_;
  int rank_ = 0, size_ = 1;
};

/// A communicator of the CPU whose ranks lie on virtual nodes, one after the other.
inline std::shared_ptr<Communicator> comm_on_nodes(int nodes) {
  static auto& all = *new std::map<int, std::shared_ptr<Communicator>>;
  std::shared_ptr<Communicator>& comm = all[nodes];
  if (comm) return comm;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("MN_NODE_NAME", ("node" + std::to_string(rank % nodes)).c_str(), 1);
  comm = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  unsetenv("MN_NODE_NAME");
  return comm;
}

}  // namespace mn::test
