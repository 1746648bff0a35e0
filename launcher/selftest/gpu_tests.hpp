/// The self test's GPU tests. They load the CUDA driver at run time, so the build also runs without GPUs.
#pragma once

#include <optional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

struct OwnDevice {
  std::optional<Device> device;  ///< no value: the communicator's default device
  std::string problem;           ///< why the rank cannot use the GPU of MN_DEVICE; else empty
};
/// Returns the device of MN_DEVICE or, if CUDA does not see this GPU, the CPU and the reason.
[[nodiscard]] OwnDevice device_of_this_rank();

/// The main function of probe_cuda_aware()'s child process. It sends GPU memory to itself with MPI_Sendrecv. Returns
/// the exit status: 0 if the right data arrived.
[[nodiscard]] int run_cuda_probe(int argc, char** argv);

/// Whether MPI can send GPU memory: "yes", "no (…)" or "no GPU". Tries it in a child process, which may crash.
[[nodiscard]] std::string probe_cuda_aware(Device device);

/// Measures copies from page-locked host memory to the GPU. Returns GB/s. Throws CommError.
[[nodiscard]] double host_gpu_gb_s(Device device);

struct NcclResult {
  std::string result;         ///< "passed", "FAILED: …" or why there is nothing to test
  double allreduce_gb_s = 0;  ///< bus bandwidth; 0: not measured
};
/// Collective: checks NCCL's allreduce and measures its bandwidth. May throw CommError on a single rank.
[[nodiscard]] NcclResult test_nccl(const Communicator& comm);

}  // namespace mn::selftest
