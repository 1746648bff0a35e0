/// Where gradients are reduced while the program computes.
#pragma once

#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include <mn/comm/communication_thread.hpp>

namespace mn {

/// Runs tasks in the order submitted, with a communicator of their own (the same ranks and backend): on a thread, or,
/// where the communicator enqueues on a GPU (device_collectives()), at once. The host continues in either case. On a
/// GPU the work of a task runs on a stream of its own, after what the submitter's current stream held. All ranks submit
/// the same collectives in the same order; one thread at a time.
class BackgroundReducer {
 public:
  using Task = CommunicationThread::Task;

  /// Collective. Throws UsageError if a thread is needed and MPI has no MPI_THREAD_MULTIPLE.
  explicit BackgroundReducer(Communicator& comm);

  /// For allocations and other collective set-up, while no task is under way.
  [[nodiscard]] Communicator& communicator() noexcept { return thread_ ? thread_->communicator() : *comm_; }
  /// The task must own what it uses, until wait() or longer.
  void submit(Task task);
  /// Returns when all tasks have run. On a GPU the caller's current stream continues after what they enqueued, and the
  /// host goes on. Throws the first error of a task. Afterwards memory that tasks used may be freed in the order of
  /// that stream.
  void wait();
  /// The same; and returns when what they enqueued is done. Throws errors of the device's collectives too.
  void finish();

 private:
  std::optional<CommunicationThread> thread_;
  std::shared_ptr<Communicator> comm_;  // null where there is a thread
  std::optional<c10::Stream> stream_;   // on a GPU: where the tasks run
};

}  // namespace mn
