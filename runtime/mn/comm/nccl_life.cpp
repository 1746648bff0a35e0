#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include <mn/comm/call_limits.hpp>
#include <mn/comm/cuda_check.hpp>
#include <mn/comm/mpi.hpp>
#include <mn/comm/nccl.hpp>
#include <mn/comm/progress.hpp>
#include <mn/comm/topology.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

constexpr std::int64_t kTimeout_s = 1800;
constexpr auto kAbortTime = std::chrono::seconds(5);
constexpr auto kBetweenLooksAside = std::chrono::microseconds(50);

/// (7): NCCL reads it at its first call.
void connect_all_at_once() {
  static const int status = setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  static_cast<void>(status);
}

std::string line_of(const std::source_location& where) {
  const std::string_view file(where.file_name());
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

/// `who` is empty where nothing is known of the communicator yet.
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

/// This process's communicators, for (9). Never destroyed: one may live as long as the process.
struct Living {
  std::mutex mutex;
  std::vector<Nccl*> all;
};

Living& living() {
  static auto* const communicators = new Living;
  return *communicators;
}

}  // namespace

void nccl_check(ncclResult_t code, std::string_view operation, std::size_t bytes, std::source_location where) {
  if (code != ncclSuccess) throw CommError(failure(code, nullptr, operation, bytes, {}, where));
}

Nccl::Nccl(MPI_Comm comm, Device device) : patience_(nccl_timeout()), device_(device.index) {
  // (6): NCCL itself would fail on some ranks, and leave the others in ncclCommInitRank.
  if (const std::string conflict = find_device_conflict(comm, device); !conflict.empty()) {
    throw UsageError("NCCL needs a GPU of its own for every rank, but " + conflict +
                     ": start as many ranks as there are GPUs, or use --communicator flat");
  }
  mpi_check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  who_ = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " (host " + host_name() + ", " +
         device.str() + ")";
  sends_to_.resize(static_cast<std::size_t>(size_));
  receives_from_.resize(static_cast<std::size_t>(size_));
  connect_all_at_once();
  ncclUniqueId id{};
  // An error here would leave the others in MPI_Bcast; mn::Job then ends the job.
  if (rank_ == 0) nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  mpi_check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm), "sharing NCCL's id", sizeof id);
  cuda_set_device(device.index);
  ncclComm_t made = nullptr;
  nccl_check(aside([&] { return ncclCommInitRank(&made, size_, id, rank_); }), "ncclCommInitRank on " + who_);
  comm_ = made;
  const std::lock_guard lock(living().mutex);
  living().all.push_back(this);
}

Nccl::~Nccl() {
  {
    const std::lock_guard lock(living().mutex);
    std::erase(living().all, this);
  }
  watch_ = {};                                   // ends it
  if (!failure_.empty()) log_warning(failure_);  // no call has thrown it
  // (2)
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
    // (3): detached, because a captured graph may hold it up forever.
    std::thread(std::move(task)).detach();
  } catch (const std::exception& error) {
    log_warning("NCCL cannot be aborted on " + who_ + ": " + error.what());
  }
  comm_ = nullptr;  // (1): every later call throws
}

void Nccl::abort_others() noexcept {
  const std::lock_guard lock(living().mutex);
  for (Nccl* const other : living().all) {
    const std::unique_lock its(other->mutex_, std::try_to_lock);
    if (!its || other->comm_ == nullptr) continue;
    log_warning("NCCL on " + other->who_ + " is aborted: its work may hold up the abort of another communicator");
    other->abort(std::chrono::milliseconds(0));
  }
}

void Nccl::fail(ncclResult_t code, std::source_location where) {
  const std::string message = failure(code, comm_, operation_, bytes_, who_, where);
  abort(kReportTime);  // (4): the delay lets this rank's words come first
  throw CommError(message);
}

ncclResult_t Nccl::aside(const std::function<ncclResult_t()>& call) {
  const auto begin = Clock::now();
  std::future<ncclResult_t> done = std::async(std::launch::async, [&] {
    // Else its allocations would end the capture of a graph that another thread is making.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
    static_cast<void>(cudaSetDevice(device_));
    return call();
  });
  try {
    while (done.wait_for(kBetweenLooksAside) != std::future_status::ready) {
      progress_pending_requests();  // a peer may come only after a message of this rank
      if (comm_ == nullptr) continue;
      check_limits();
      check_progress(begin);
    }
  } catch (const CommError&) {
    abort(kReportTime);  // ends the call, for which the future's destructor waits
    throw;
  }
  return done.get();
}

}  // namespace mn
