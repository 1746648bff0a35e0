// The communicator of tests of graphs, on GPUs, which ranks may share, or on the test device.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include <mpi.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>

namespace mn::test {

inline std::shared_ptr<Communicator> on_device() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);  // to NCCL ranks that share a GPU are hosts of their own
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
  return create_communicator("pure_nccl", MPI_COMM_WORLD,
                             {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
}

/// One communicator for all tests: to make and to destroy one takes NCCL a second.
inline std::shared_ptr<Communicator>& comm() {
  static auto& one = *new std::shared_ptr<Communicator>(on_device());
  return one;
}

/// To a tolerance where there are more than two ranks: NCCL may add them in another order.
inline bool are_alike(const at::Tensor& a, const at::Tensor& b) {
  const bool same = a.sub(b).nan_to_num_(0).abs().max().item<double>() == 0;
  return same || (comm()->size() > 2 && torch::allclose(a, b, 1e-4, 1e-5, /*equal_nan=*/true));
}

}  // namespace mn::test
