/// The GPU part of the self test. The CUDA driver is loaded at run time, so one build serves all machines.
#pragma once

#include <optional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// The device of a rank.
struct OwnDevice {
  std::optional<Device> device;  ///< no value: the communicator's default device
  std::string problem;           ///< why the rank cannot use the GPU of MN_DEVICE; else empty
};
/// The device that MN_DEVICE names. If CUDA does not see that GPU, returns the CPU and the reason.
[[nodiscard]] OwnDevice device_of_this_rank();

/// The program of the child process that probe_cuda_aware() starts: sends device memory to itself with MPI_Sendrecv.
/// Returns the exit status.
[[nodiscard]] int run_cuda_probe(int argc, char** argv);

/// Tells whether MPI takes device pointers: "yes", "no (…)" or "no GPU". Tries this in a child process, because an MPI
/// that does not take device pointers crashes.
[[nodiscard]] std::string probe_cuda_aware(Device device);

/// Bandwidth, in GB/s, of copies from page-locked memory to the GPU. Throws CommError.
[[nodiscard]] double host_gpu_gb_s(Device device);

struct NcclResult {
  std::string result;         ///< "passed", "FAILED: …" or why there is nothing to test
  double allreduce_gb_s = 0;  ///< bus bandwidth; 0: not measured
};
/// Collective: tests and times NCCL's allreduce. May throw CommError on a single rank.
[[nodiscard]] NcclResult test_nccl(const Communicator& comm);

}  // namespace mn::selftest
