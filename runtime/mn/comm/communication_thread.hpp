/// Collectives that go on while the program computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A thread with a communicator of its own (the same ranks and backend) that runs tasks in the order submitted. All
/// ranks must submit the same collectives in the same order. submit() and wait() are for one thread at a time.
class CommunicationThread {
 public:
  using Task = std::function<void(Communicator&)>;

  /// Collective. Throws UsageError if MPI was started without MPI_THREAD_MULTIPLE.
  explicit CommunicationThread(const Communicator& comm);
  /// Waits for the tasks submitted; an error that nobody waited for is logged.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// For allocations and other collective set-up, while no task is under way.
  [[nodiscard]] Communicator& communicator() noexcept { return *comm_; }
  void submit(Task task);
  /// Returns when all tasks have run; throws the first error that one of them threw, after which no task runs any more.
  void wait();

 private:
  void run();

  std::shared_ptr<Communicator> comm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace mn
