/// The GPU part of the self test. The CUDA driver is loaded at run time, so one build serves all machines.
#pragma once

#include <optional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// The device of a rank.
struct OwnDevice {
  std::optional<Device> device;  ///< no value: the default device
  std::string problem;           ///< why the device is not mnlaunch's choice; else empty
};
/// The GPU of MN_DEVICE, if CUDA sees it; else the CPU.
[[nodiscard]] OwnDevice device_of_this_rank();

/// The child process of probe_cuda_aware(): MPI_Sendrecv of device memory to itself. Returns the exit status.
[[nodiscard]] int run_cuda_probe(int argc, char** argv);

/// Whether MPI takes device pointers: "yes", "no (…)" or "no GPU". Tried in a child process, because an MPI without
/// that ability crashes.
[[nodiscard]] std::string probe_cuda_aware(Device device);

/// Bandwidth of copies from page-locked memory to the GPU. Throws CommError.
[[nodiscard]] double host_gpu_gb_s(Device device);

struct NcclResult {
  std::string result;         ///< "passed", "FAILED: …" or why there is nothing to test
  double allreduce_gb_s = 0;  ///< bus bandwidth; 0: not measured
};
/// Collective. May throw CommError on one rank alone.
[[nodiscard]] NcclResult test_nccl(const Communicator& comm);

}  // namespace mn::selftest
