#include "selftest/gpu_tests.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_conflict.hpp>
#include <mn/core/child_process.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "selftest/report_text.hpp"

namespace mn::selftest {
namespace {

constexpr int kNoGpuStatus = 3;

/// This process's environment without the launchers' variables: a child process becomes a job of its own.
std::vector<std::string> environment_of_singleton() {
  constexpr std::string_view kOwned[] = {"PMIX_", "OMPI_", "PMI_", "SLURM_", "PRTE_"};
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool owned = std::ranges::any_of(kOwned, [&](auto prefix) { return text.starts_with(prefix); });
    const bool chosen = text.starts_with("OMPI_MCA_") && !text.starts_with("OMPI_MCA_orte") &&
                        !text.starts_with("OMPI_MCA_ess") && !text.starts_with("OMPI_MCA_pmix");
    if (!owned || chosen || text.starts_with("OMPI_ALLOW_RUN_AS_ROOT")) kept.emplace_back(text);
  }
  return kept;
}

/// Waits for `child`, kills the process after 30 s, and returns the wait status.
int wait_for(pid_t child) {
  constexpr std::chrono::milliseconds kInterval{20};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) kill(child, SIGKILL);
    std::this_thread::sleep_for(kInterval);
  }
  return status;
}

/// Runs run_cuda_probe() in a child process. Returns its wait status; -1 if it could not be started.
int run_probe() {
  const pid_t child =
      start_process({executable_path().string(), "--cuda-probe"}, {.environment = environment_of_singleton()});
  return child > 0 ? wait_for(child) : -1;
}

template <typename Function>
double least_seconds(Function run) {
  constexpr int kTimes = 5;
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

class DeviceMemory {
 public:
  /// Throws CommError if there is no CUDA driver, or if the driver cannot allocate the memory.
  DeviceMemory(int index, std::size_t bytes) {
    if (driver_ == nullptr) throw CommError("there is no CUDA driver (libcuda.so.1)");
    int device = 0;
    void* context = nullptr;
    call("cuInit", 0U);
    call("cuDeviceGet", &device, index);
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxSetCurrent", context);
    call("cuMemAlloc_v2", &address_, bytes);
  }
  ~DeviceMemory() {
    try {
      call("cuMemFree_v2", address_);
    } catch (const CommError&) {  // the process ends soon, and the driver frees the memory
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] void* data() const noexcept { return reinterpret_cast<void*>(address_); }
  void fill(std::uint32_t word, std::size_t count) { call("cuMemsetD32_v2", address_, word, count); }
  void read(void* host, std::size_t bytes) const { call("cuMemcpyDtoH_v2", host, address_, bytes); }
  /// The time, in seconds, of the fastest of several copies from page-locked host memory.
  [[nodiscard]] double seconds_of_copy_from_host(std::size_t bytes) const {
    void* host = nullptr;
    call("cuMemAllocHost_v2", &host, bytes);
    const double seconds = least_seconds([&] { call("cuMemcpyHtoD_v2", address_, host, bytes); });
    call("cuMemFreeHost", host);
    return seconds;
  }

 private:
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver_, name));
    const int status = function == nullptr ? -1 : function(arguments...);
    if (status != 0) throw CommError(std::string(name) + " returned " + std::to_string(status));
  }

  void* const driver_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never unloaded, because it has threads
  unsigned long long address_ = 0;
};

}  // namespace

OwnDevice device_of_this_rank() {
  const auto text = environment("MN_DEVICE");
  if (!text) return {};
  const Device device = Device::parse(*text);
  const int seen = cuda_device_count();
  if (device.type == DeviceType::kCpu || device.index < seen) return {device, ""};
  std::string why = kNotThisBuild;
  try {
    static_cast<void>(DeviceMemory(device.index, 1));
  } catch (const CommError& error) {
    why = error.what();
  }
  const std::string count = seen == 0 ? "none" : std::to_string(seen) + " of them";
  return {Device{}, "NVML shows GPUs to this job, but CUDA sees " + count + ": " + why};
}

int run_cuda_probe(int argc, char** argv) {
  constexpr int kWords = 1024;
  MPI_Init(&argc, &argv);
  int status = kNoGpuStatus;
  try {
    DeviceMemory from(0, kWords * sizeof(std::uint32_t));
    DeviceMemory to(0, kWords * sizeof(std::uint32_t));
    from.fill(7, kWords);
    to.fill(0, kWords);
    MPI_Sendrecv(from.data(), kWords, MPI_UINT32_T, 0, 0, to.data(), kWords, MPI_UINT32_T, 0, 0, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    std::vector<std::uint32_t> words(kWords);
    to.read(words.data(), words.size() * sizeof(std::uint32_t));
    status = std::ranges::all_of(words, [](auto word) { return word == 7; }) ? 0 : 1;
  } catch (const CommError&) {  // no working GPU: `status` stays kNoGpuStatus
  }
  MPI_Finalize();
  return status;
}

std::string probe_cuda_aware(Device device) {
  if (device.type != DeviceType::kCuda) return "no GPU";
  const int status = run_probe();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "yes";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoGpuStatus) return "no GPU";
  return WIFSIGNALED(status) ? std::string("no (a device pointer crashes it: ") + strsignal(WTERMSIG(status)) + ")"
                             : "no (device memory arrives wrong)";
}

double host_gpu_gb_s(Device device) {
  constexpr std::size_t kBytes = 256 << 20;
  const DeviceMemory memory(device.index, kBytes);
  return static_cast<double>(kBytes) / memory.seconds_of_copy_from_host(kBytes) / 1e9;
}

NcclResult test_nccl(const Communicator& comm) {
  constexpr std::size_t kCount = 1027;
  constexpr std::size_t kLargeCount = 64 << 20;
  const auto names = communicator_names();
  const std::string conflict = find_device_conflict(comm.mpi_comm(), comm.device());
  const bool possible = conflict.empty() || nccl_shares_gpus(comm.mpi_comm(), comm.device());
  if (comm.device().type != DeviceType::kCuda) return {"no GPU", 0};
  if (std::ranges::find(names, "pure_nccl") == names.end()) return {"built without NCCL", 0};
  if (!possible) return {"not possible: " + conflict, 0};
  const auto nccl = create_communicator("pure_nccl", comm.mpi_comm(), {.device = comm.device()});
  DeviceMemory memory(comm.device().index, kLargeCount * sizeof(std::int32_t));
  memory.fill(static_cast<std::uint32_t>(comm.rank() + 1), kCount);
  nccl->allreduce(BufferView(memory.data(), kCount, DType::kInt32, comm.device()));
  std::vector<std::int32_t> sums(kCount);
  memory.read(sums.data(), sums.size() * sizeof(std::int32_t));
  const int expected = comm.size() * (comm.size() + 1) / 2;
  if (!std::ranges::all_of(sums, [&](int sum) { return sum == expected; })) return {"FAILED: wrong sums", 0};
  const double seconds =
      least_seconds([&] { nccl->allreduce(BufferView(memory.data(), kLargeCount, DType::kInt32, comm.device())); });
  // The bus bandwidth of nccl-tests. `passes`: how often each byte passes the links of a rank.
  const double passes = 2.0 * (comm.size() - 1) / comm.size();
  return {"passed", passes * static_cast<double>(kLargeCount * sizeof(std::int32_t)) / seconds / 1e9};
}

}  // namespace mn::selftest
