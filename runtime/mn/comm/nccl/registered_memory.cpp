#include <mn/comm/nccl/registered_memory.hpp>

#include <array>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/log.hpp>
#include <mn/core/nccl_versions.hpp>

namespace mn {
namespace {

constexpr int kFirstWithWindows = 22700;  // 2.27.0
constexpr int kSymmetric = 1;             // NCCL_WIN_COLL_SYMMETRIC: equal offsets on all ranks
constexpr std::size_t kAlignment = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT
constexpr std::size_t kTriedBytes = std::size_t{8} << 20;
constexpr int kWarmUp = 3;
constexpr int kRepeats = 10;
constexpr double kGain = 0.97;  // a smaller gain may be chance

/// Invariant 4: NCCL's functions, looked up at run time. A window's handle is passed as void*.
struct Functions {
  ncclResult_t (*allocate)(void** memory, std::size_t bytes);
  ncclResult_t (*free)(void* memory);
  ncclResult_t (*open)(ncclComm_t comm, void* memory, std::size_t bytes, void** window, int flags);
  ncclResult_t (*close)(ncclComm_t comm, void* window);

  [[nodiscard]] bool are_complete() const { return allocate && free && open && close; }
};

const Functions& functions() {
  static const Functions found = [] {
    Functions all{};
    const auto find = [](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    };
    find(all.allocate, "ncclMemAlloc"), find(all.free, "ncclMemFree");
    find(all.open, "ncclCommWindowRegister"), find(all.close, "ncclCommWindowDeregister");
    return all;
  }();
  return found;
}

}  // namespace

/// The open windows of a communicator, by the address of their memory.
struct RegisteredMemory::Windows {
  Nccl* nccl;
  std::map<std::byte*, void*> open;

  void close(std::byte* memory) noexcept {
    const auto found = open.find(memory);
    if (found == open.end()) return;
    void* const window = found->second;
    open.erase(found);
    try {
      const auto code =
          nccl->call("closing a window", [=](ncclComm_t comm) { return functions().close(comm, window); });
      if (code != ncclSuccess) log_warning("NCCL cannot close a window of memory");
    } catch (const std::exception& error) {  // for example, the communicator was aborted, which closes its windows
      log_debug(std::string("a window of NCCL's is left open: ") + error.what());
    }
  }

  /// While an exception unwinds the stack, frees nothing: the device may wait forever for other ranks.
  void free(std::byte* memory) noexcept {
    if (std::uncaught_exceptions() > 0) return;
    static_cast<void>(cudaDeviceSynchronize());
    close(memory);  // invariant 3: closes the window first
    if (functions().free(memory) != ncclSuccess) log_warning("ncclMemFree failed");
  }
};

RegisteredMemory::RegisteredMemory(MPI_Comm comm, Nccl& nccl)
    : comm_(comm), nccl_(nccl), windows_(std::make_shared<Windows>(Windows{&nccl, {}})) {}

RegisteredMemory::~RegisteredMemory() {
  if (std::uncaught_exceptions() > 0) windows_->open.clear();               // the communicator is aborted
  if (!windows_->open.empty()) static_cast<void>(cudaDeviceSynchronize());  // work may still use the windows
  while (!windows_->open.empty()) windows_->close(windows_->open.begin()->first);
}

std::shared_ptr<std::byte> RegisteredMemory::allocate(std::size_t bytes, const CudaStream& stream) {
  if (!registers_) registers_ = choose(stream);
  return *registers_ ? register_new(bytes) : nullptr;
}

bool RegisteredMemory::choose(const CudaStream& stream) {
  if (nccl_.size() == 1) return false;
  const std::string wish = environment("MN_NCCL_WINDOWS").value_or("auto");
  const bool has_windows = nccl_version() >= kFirstWithWindows && functions().are_complete();
  if (!holds_on_all_ranks(comm_, has_windows && wish != "off")) return false;
  if (holds_on_all_ranks(comm_, wish == "on")) return true;
  const auto tried = register_new(kTriedBytes);
  return tried != nullptr && is_faster(tried.get(), stream);
}

bool RegisteredMemory::is_faster(std::byte* registered, const CudaStream& stream) {
  const CudaMemory ordinary = cuda_allocate(kTriedBytes);
  std::array<double, 2> seconds{};
  std::size_t tried = 0;
  for (std::byte* const memory : {registered, ordinary.get()}) {
    const BufferView buffer(memory, kTriedBytes / sizeof(float), DType::kFloat32);
    const auto reduce = [&](int repeats) {
      for (int i = 0; i < repeats; ++i) nccl_.allreduce(buffer, ReduceOp::kSum, stream);
      nccl_.wait(stream);
    };
    reduce(kWarmUp);
    const double begin = MPI_Wtime();
    reduce(kRepeats);
    seconds[tried++] = MPI_Wtime() - begin;
  }
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, seconds.data(), 2, MPI_DOUBLE, MPI_MAX, comm_), "comparing kinds of memory");
  const double part = seconds[0] / seconds[1];
  if (nccl_.rank() == 0) {
    log_info("NCCL reduces registered memory in " + std::to_string(std::lround(part * 100)) +
             " % of the time of ordinary memory: gradients lie in " + (part < kGain ? "registered" : "ordinary") +
             " memory");
  }
  return part < kGain;
}

std::shared_ptr<std::byte> RegisteredMemory::register_new(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = nullptr;
  const bool has_memory = functions().allocate(&memory, bytes) == ncclSuccess;
  void* window = nullptr;
  bool is_open = false;
  if (holds_on_all_ranks(comm_, has_memory)) {  // invariant 2: before they register
    is_open = nccl_.call("registering memory", [=, &window](ncclComm_t comm) {
      return functions().open(comm, memory, bytes, &window, kSymmetric);
    }) == ncclSuccess;
    is_open = is_open && window != nullptr;
    if (is_open) windows_->open[static_cast<std::byte*>(memory)] = window;
  }
  std::shared_ptr<std::byte> owned(static_cast<std::byte*>(memory), [windows = windows_](std::byte* old) {
    if (old != nullptr) windows->free(old);
  });
  return holds_on_all_ranks(comm_, is_open) ? owned : nullptr;
}

}  // namespace mn
