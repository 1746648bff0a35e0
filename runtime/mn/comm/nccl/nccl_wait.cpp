#include <mn/comm/nccl/nccl.hpp>

#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/device/cuda_check.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr int kLooksWithoutPause = 2000;  // enough looks for a small collective to end
constexpr auto kBetweenStreamLooks = std::chrono::microseconds(50);
constexpr auto kBetweenWatchLooks = std::chrono::milliseconds(100);

}  // namespace

/// Throws CommError if the communicator was aborted, once with the error that the watching thread has found.
void Nccl::check_usable() {
  if (comm_ != nullptr) return;
  const std::string found = std::exchange(failure_, {});
  throw CommError(found.empty() ? "NCCL on " + who_ + " was aborted after an error" : found);
}

void Nccl::check_progress(Clock::time_point begin) {
  check_usable();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm_, &state);
  if (code != ncclSuccess) fail(code, std::source_location::current());
  // If a peer has aborted or a connection is broken, only NCCL's asynchronous error shows it.
  if (state != ncclSuccess && state != ncclInProgress) fail(state, std::source_location::current());
  check_patience(begin);
}

/// Throws CommError when MN_NCCL_TIMEOUT is over. (NCCL waits forever for a missing rank.)
void Nccl::check_patience(Clock::time_point begin) const {
  if (patience_.count() == 0 || Clock::now() - begin < patience_) return;
  const std::string bytes = bytes_ > 0 ? " of " + std::to_string(bytes_) + " bytes" : "";
  throw CommError("NCCL " + operation_ + bytes + " on " + who_ + " has not ended in " +
                  std::to_string(patience_.count()) +
                  " s: another rank does not take part, or cannot be reached; MN_NCCL_TIMEOUT sets the seconds");
}

void Nccl::wait(const CudaStream& stream) {
  const auto begin = Clock::now();
  try {
    for (int looks = 0; !stream.is_done(); ++looks) {
      {
        const std::lock_guard lock(mutex_);
        check_progress(begin);
      }
      check_timeout();
      progress_pending_requests();  // a peer may first need this rank's messages
      if (looks < kLooksWithoutPause)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(kBetweenStreamLooks);
    }
  } catch (const CommError&) {
    const std::lock_guard lock(mutex_);
    abort(kReportTime);
    throw;
  }
}

void Nccl::watch(const CudaStream& stream) {
  const std::lock_guard lock(mutex_);
  if (stream.is_captured()) {
    was_captured_ = true;
    return;
  }
  check_usable();
  if (!watched_work_) {
    watched_work_ = cuda_create_event();
    watch_ = std::jthread([this](const std::stop_token& stop) { run_watch(stop); });
  }
  // Earlier work on the stream ends before the newest work, so one event suffices.
  cuda_check(cudaEventRecord(static_cast<cudaEvent_t>(watched_work_.get()), static_cast<cudaStream_t>(stream.handle())),
             "cudaEventRecord");
  watching_since_ = Clock::now();
  is_watching_ = true;
  watched_.notify_one();
}

/// Also true if the device has failed, because every later call reports the failure.
bool Nccl::is_watched_work_done() {
  return cudaEventQuery(static_cast<cudaEvent_t>(watched_work_.get())) != cudaErrorNotReady;
}

void Nccl::run_watch(const std::stop_token& stop) {
  // In any other mode, this thread's queries would break the capture of a CUDA graph on another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
  static_cast<void>(cudaSetDevice(device_));
  std::unique_lock lock(mutex_);
  while (watched_.wait(lock, stop, [&] { return is_watching_; }) && comm_ != nullptr) {
    if (is_watched_work_done()) {
      is_watching_ = false;
      continue;
    }
    try {
      check_progress(watching_since_);
    } catch (const CommError& error) {
      failure_ = error.what();
      return abort(kReportTime);
    }
    watched_.wait_for(lock, stop, kBetweenWatchLooks, [] { return false; });
  }
}

}  // namespace mn
