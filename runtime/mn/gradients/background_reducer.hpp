/// Runs reductions of gradients while the program computes.
#pragma once

#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include <mn/comm/communication_thread.hpp>

namespace mn {

/// Runs tasks in the order submitted, with a second communicator of the same ranks and backend. A communicator that
/// enqueues on a GPU (device_collectives()) runs a task at once, any other on a thread; the host goes on in either
/// case. On a GPU tasks work on a stream of their own, after the work that the submitter's current stream held. All
/// ranks submit equal collectives in equal order. One thread at a time may call.
class BackgroundReducer {
 public:
  using Task = CommunicationThread::Task;

  /// Collective. Throws UsageError if a thread is needed and MPI has no MPI_THREAD_MULTIPLE.
  explicit BackgroundReducer(Communicator& comm);

  /// The tasks' communicator, for allocations and other collective set-up while no task is under way.
  [[nodiscard]] Communicator& communicator() noexcept { return thread_ ? thread_->communicator() : *comm_; }
  /// The memory that the task uses must live until wait().
  void submit(Task task);
  /// Returns when all tasks have run. On a GPU the caller's current stream waits for the work that tasks enqueued, and
  /// the host goes on: the tasks' memory may then be freed in the order of the caller's stream. Throws the first error
  /// of a task.
  void wait();
  /// Returns when all tasks and the work that they enqueued on a device are done. Throws the first error of a task or
  /// of the device's collectives.
  void finish();

 private:
  std::optional<CommunicationThread> thread_;
  std::shared_ptr<Communicator> comm_;  // null if there is a thread
  std::optional<c10::Stream> stream_;   // of the tasks, on a GPU
};

}  // namespace mn
