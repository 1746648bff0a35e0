/// Runs reductions of gradients while the program computes.
#pragma once

#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include <mn/comm/communication_thread.hpp>

namespace mn {

/// Runs tasks in the order of their submission, on a second communicator with the same ranks and backend. If that
/// communicator enqueues its calls on a GPU (device_collectives()), submit() itself runs the task, because the task
/// only enqueues work. Otherwise a thread runs the task. In both cases submit() does not wait for the work. On a GPU
/// the tasks' work runs on a stream of its own, after the work that was on the submitter's current stream at submit().
/// All ranks must submit the same collective calls in the same order. Only one thread at a time may call the member
/// functions.
class BackgroundReducer {
 public:
  using Task = CommunicationThread::Task;

  /// Collective. `limits` are limits on NCCL's kernels. Throws UsageError if tasks need a thread but MPI has no
  /// MPI_THREAD_MULTIPLE.
  explicit BackgroundReducer(Communicator& comm, const NcclLimits& limits = {});

  /// Returns the tasks' communicator. While no task is under way, the caller may use it for allocations and other
  /// collective set-up.
  [[nodiscard]] Communicator& communicator() noexcept { return thread_ ? thread_->communicator() : *comm_; }
  /// Submits a task. The memory that the task uses must live until wait() returns.
  void submit(Task task);
  /// Returns when all tasks have run. On a GPU the work that the tasks have enqueued may still run: the caller's
  /// current stream waits for this work, but the host does not. Memory that the tasks use may be given to later work of
  /// that stream, because the later work begins after the tasks' work. Throws the first error of a task.
  void wait();
  /// Returns when all tasks have run and the device has done the work that the tasks enqueued. Throws the first error
  /// of a task or of the device's collectives.
  void finish();

 private:
  std::optional<CommunicationThread> thread_;
  std::shared_ptr<Communicator> comm_;  // null if there is a thread
  std::optional<c10::Stream> stream_;   // stream of the tasks' work, on a GPU
};

}  // namespace mn
