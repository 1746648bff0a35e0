#include <mn/comm/nccl/nccl.hpp>

#include <cstdlib>
#include <exception>
#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/device/cuda_check.hpp>
#include <mn/comm/device/device_conflict.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/log.hpp>
#include <mn/core/nccl_versions.hpp>

namespace mn {
namespace {

constexpr std::int64_t kTimeout_s = 1800;
constexpr int kFirstThatSplits = 21800;  // 2.18.0
constexpr int kFirstThatOrders = 22600;  // 2.26.0
constexpr auto kAbortTime = std::chrono::seconds(5);
constexpr auto kBetweenLooksAside = std::chrono::microseconds(50);

/// Sets NCCL's variables of invariants 6, 7 and 11 (nccl.hpp). NCCL reads them at its first call only.
void set_variables() {
  static_cast<void>(setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0));
  if (nccl_version() >= kFirstThatOrders) {
    static_cast<void>(setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0));
  }
  if (nccl_shares_gpus()) static_cast<void>(setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*overwrite=*/0));
}

/// NCCL chooses all values that stay undefined. Headers before NCCL 2.27 have no CTAPolicy.
template <class Config>
void apply(const NcclLimits& limits, Config& config) {
  if (limits.max_ctas > 0) config.maxCTAs = limits.max_ctas;
  if constexpr (requires { config.CTAPolicy; }) {
    if (limits.cta_policy > 0) config.CTAPolicy = limits.cta_policy;
  }
}

std::string line_of(const std::source_location& where) {
  const std::string_view file(where.file_name());
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

/// Returns the text of an error. `who` names the rank; before the communicator exists, `who` is empty.
std::string failure(ncclResult_t code, ncclComm_t comm, std::string_view operation, std::size_t bytes,
                    const std::string& who, const std::source_location& where) {
  const char* detail = ncclGetLastError(comm);
  std::string message = "NCCL " + std::string(operation);
  if (bytes > 0) message += " of " + std::to_string(bytes) + " bytes";
  if (!who.empty()) message += " on " + who;
  message += " failed: " + std::string(ncclGetErrorString(code));
  if (detail != nullptr && *detail != '\0') message += "; " + std::string(detail);
  return message + " (" + line_of(where) + "; NCCL_DEBUG=INFO tells more)";
}

std::chrono::seconds nccl_timeout() {
  const std::int64_t seconds = environment_int("MN_NCCL_TIMEOUT").value_or(kTimeout_s);
  if (seconds < 0) {
    throw UsageError("MN_NCCL_TIMEOUT is " + std::to_string(seconds) + ": use seconds, or 0 to wait forever");
  }
  return std::chrono::seconds(seconds);
}

/// All NCCL communicators of the process (invariant 9). Never destroyed: a communicator may live as long.
struct AllNccl {
  std::mutex mutex;
  std::vector<Nccl*> all;
};

AllNccl& all_nccl() {
  static auto* const communicators = new AllNccl;
  return *communicators;
}

}  // namespace

void nccl_check(ncclResult_t code, std::string_view operation, std::size_t bytes, std::source_location where) {
  if (code != ncclSuccess) throw CommError(failure(code, nullptr, operation, bytes, {}, where));
}

Nccl::Nccl(MPI_Comm comm, Device device) : patience_(nccl_timeout()), device_(device.index) {
  // Invariant 6: otherwise NCCL would fail on some ranks, and the others would wait forever in ncclCommInitRank.
  const std::string conflict = find_device_conflict(comm, device);
  if (!conflict.empty() && !nccl_shares_gpus(comm, device)) {
    throw UsageError("NCCL needs a GPU of its own for every rank, but " + conflict +
                     ": start as many ranks as there are GPUs, or use --communicator flat");
  }
  rank_ = rank_in(comm);
  size_ = size_of(comm);
  name_rank();
  set_variables();
  ncclUniqueId id{};
  // If rank 0 throws, the other ranks wait in MPI_Bcast until mn::Job ends the job.
  if (rank_ == 0) nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm), "sharing NCCL's id", sizeof id);
  cuda_set_device(device.index);
  operation_ = "ncclCommInitRank";
  const auto made = std::make_shared<ncclComm_t>();  // shared: a detached thread may still use it
  nccl_check(aside([=, size = size_, rank = rank_] { return ncclCommInitRank(made.get(), size, id, rank); }),
             "ncclCommInitRank on " + who_);
  adopt(*made);
}

Nccl::Nccl(const Nccl& whole, ncclComm_t part) : patience_(whole.patience_), device_(whole.device_) {
  nccl_check(ncclCommUserRank(part, &rank_), "ncclCommUserRank");
  nccl_check(ncclCommCount(part, &size_), "ncclCommCount");
  name_rank();
  adopt(part);
}

void Nccl::name_rank() {
  who_ = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " (host " + host_name() + ", " +
         Device{DeviceType::kCuda, device_}.str() + ")";
  sends_to_.resize(static_cast<std::size_t>(size_));
  receives_from_.resize(static_cast<std::size_t>(size_));
}

void Nccl::adopt(ncclComm_t made) {
  comm_ = made;
  const std::lock_guard lock(all_nccl().mutex);
  all_nccl().all.push_back(this);
}

bool Nccl::can_split(MPI_Comm comm) { return holds_on_all_ranks(comm, nccl_version() >= kFirstThatSplits); }

std::shared_ptr<Nccl> Nccl::split(int color, int key, const NcclLimits& limits, const CudaStream& stream) {
  wait(stream);
  ncclComm_t part = nullptr;
  {
    const std::lock_guard lock(mutex_);
    check_usable();
    operation_ = "split";
    bytes_ = 0;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    apply(limits, config);
    const ncclResult_t code = aside([&, comm = comm_] {
      return ncclCommSplit(comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part,
                           limits.max_ctas > 0 || limits.cta_policy > 0 ? &config : nullptr);
    });
    if (code != ncclSuccess) fail(code, std::source_location::current());
  }
  return part == nullptr ? nullptr : std::make_shared<Nccl>(*this, part);
}

ncclResult_t Nccl::call(std::string_view operation, const std::function<ncclResult_t(ncclComm_t)>& call) {
  const std::lock_guard lock(mutex_);
  check_usable();
  operation_ = operation;
  bytes_ = 0;
  return aside([&, comm = comm_] { return call(comm); });
}

Nccl::~Nccl() {
  {
    const std::lock_guard lock(all_nccl().mutex);
    std::erase(all_nccl().all, this);
  }
  watch_ = {};  // joins the watch: ncclCommDestroy could wait forever for work that it watches
  if (!failure_.empty()) log_warning(failure_);  // no call has thrown this error
  // Invariant 2: other ranks may never call ncclCommDestroy.
  if (std::uncaught_exceptions() > 0) abort(std::chrono::milliseconds(0));
  if (comm_ != nullptr && ncclCommDestroy(comm_) != ncclSuccess) log_warning("ncclCommDestroy failed on " + who_);
  if (!aborting_.valid()) return;
  bool has_ended = aborting_.wait_for(kAbortTime) == std::future_status::ready;
  if (!has_ended && !was_captured_) {
    abort_others();
    has_ended = aborting_.wait_for(kAbortTime) == std::future_status::ready;
  }
  if (!has_ended) {
    log_warning("ncclCommAbort on " + who_ +
                " has not returned and is left behind: destroy CUDA graphs before the communicator that they captured");
  } else if (aborting_.get() != ncclSuccess) {
    log_warning("ncclCommAbort failed on " + who_);
  }
}

void Nccl::abort(std::chrono::milliseconds delay) noexcept {
  if (comm_ == nullptr) return;
  try {
    std::packaged_task<ncclResult_t()> task([comm = comm_, delay] {
      std::this_thread::sleep_for(delay);
      return ncclCommAbort(comm);
    });
    aborting_ = task.get_future();
    std::thread(std::move(task)).detach();
  } catch (const std::exception& error) {
    log_warning("NCCL cannot be aborted on " + who_ + ": " + error.what());
  }
  comm_ = nullptr;
}

void Nccl::abort_others() noexcept {
  const std::lock_guard lock(all_nccl().mutex);
  for (Nccl* const other : all_nccl().all) {
    const std::unique_lock its(other->mutex_, std::try_to_lock);
    if (!its || other->comm_ == nullptr) continue;
    log_warning("NCCL on " + other->who_ + " is aborted: its work may hold up the abort of another communicator");
    other->abort(std::chrono::milliseconds(0));
  }
}

void Nccl::fail(ncclResult_t code, std::source_location where) {
  const std::string message = failure(code, comm_, operation_, bytes_, who_, where);
  abort(kReportTime);  // invariant 4: the delay lets this rank report first
  throw CommError(message);
}

ncclResult_t Nccl::aside(std::function<ncclResult_t()> call) {
  const auto begin = Clock::now();
  std::packaged_task<ncclResult_t()> task([call = std::move(call), device = device_] {
    // In any other mode, this thread's allocations would break the capture of a CUDA graph on another thread.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
    static_cast<void>(cudaSetDevice(device));
    return call();
  });
  std::future<ncclResult_t> done = task.get_future();
  std::thread thread(std::move(task));
  try {
    while (done.wait_for(kBetweenLooksAside) != std::future_status::ready) {
      progress_pending_requests();  // a peer may first need this rank's messages
      if (comm_ == nullptr) {
        check_patience(begin);
        continue;
      }
      check_timeout();
      check_progress(begin);
    }
  } catch (...) {
    if (comm_ == nullptr) {
      thread.detach();  // ncclCommInitRank cannot be aborted
      throw;
    }
    abort(kReportTime);  // ends the call
    thread.join();
    throw;
  }
  thread.join();
  return done.get();
}

}  // namespace mn
