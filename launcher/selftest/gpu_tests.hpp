/// The GPU part of the self test. The CUDA driver is loaded at run time, so that one build serves all machines.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn::selftest {

/// Memory of a GPU.
class DeviceMemory {
 public:
  /// Throws CommError if the driver or the memory can't be had.
  DeviceMemory(int device, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] void* data() const noexcept;
  void fill(std::uint32_t word, std::size_t count);
  void read(void* host, std::size_t bytes) const;
  /// From page-locked memory; the best of some.
  [[nodiscard]] double seconds_of_copy_from_host(std::size_t bytes) const;

 private:
  class Driver;
  std::unique_ptr<Driver> driver_;
  unsigned long long address_ = 0;
};

/// What a rank computes with.
struct OwnDevice {
  std::optional<Device> device;  ///< no value: the default
  std::string problem;           ///< why it is not the one that mnlaunch gave the rank
};
/// The GPU that MN_DEVICE names, where CUDA sees it; else the CPU.
[[nodiscard]] OwnDevice device_of_this_rank();

/// What the child of probe_cuda_aware() runs: MPI_Sendrecv of device memory to itself. Returns its exit status.
[[nodiscard]] int run_cuda_probe(int argc, char** argv);

/// Whether MPI takes device pointers: "yes", "no (…)" or "no GPU". Tried in a process of its own, as an MPI that does
/// not know them crashes.
[[nodiscard]] std::string probe_cuda_aware(Device device);

/// Bandwidth of copies from page-locked memory to the GPU. Throws CommError.
[[nodiscard]] double host_gpu_gb_s(Device device);

struct NcclResult {
  std::string result;         ///< "passed", "FAILED: …" or why there is nothing to test
  double allreduce_gb_s = 0;  ///< bus bandwidth; 0: not measured
};
/// Collective. Throws CommError, on one rank alone perhaps.
[[nodiscard]] NcclResult test_nccl(const Communicator& comm);

}  // namespace mn::selftest
