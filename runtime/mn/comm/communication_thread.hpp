/// Collectives that go on while the program computes.
///
/// Every rank makes one at the same time, and submits the same collectives in the same order; each rank's thread runs
/// its tasks alone.
///
/// Invariants:
/// 1. One thread at a time uses the communicator: this one while it has tasks, else the owner's.
/// 2. The first error ends all work: tasks behind it are dropped, and every wait() throws it.
/// 3. While an exception unwinds, the destructor waits for nobody: other ranks may never join the collective in which
///    the thread may be. It leaves the thread behind, which runs the tasks that it has. Memory that they own is
///    released with them; the communicator is kept for the life of the process, because MPI_Comm_free is collective.
/// 4. MPI_Finalize must not run beside another thread's call of MPI: mn::Job calls wait_for_all() first.
/// 5. wait() throws without a lock: an exception that nothing catches comes to mn::Job before the stack unwinds.
///
/// Cost: one MPI communicator, one thread; two switches between threads for a task.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A thread with a communicator of its own (the same ranks and backend) that runs tasks in the order submitted.
/// submit() and wait() are for one thread at a time.
class CommunicationThread {
 public:
  using Task = std::function<void(Communicator&)>;

  /// Whether MPI was started with MPI_THREAD_MULTIPLE.
  [[nodiscard]] static bool is_possible();
  /// Collective. Throws UsageError if it is not possible.
  explicit CommunicationThread(const Communicator& comm);
  /// Local: the thread makes its communicator by itself, which is collective over the ranks' threads.
  explicit CommunicationThread(std::function<std::shared_ptr<Communicator>()> make);
  /// Waits for the tasks submitted; logs an error that no wait() has thrown. While an exception unwinds it does not
  /// wait: tasks must own what they use.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// For allocations and other collective set-up, while it has no task.
  [[nodiscard]] Communicator& communicator() noexcept { return *shared_->comm; }
  /// Whether it has been made. Any thread.
  [[nodiscard]] bool has_communicator() const;
  /// Communicator::abort() of its communicator. Any thread.
  void abort(const std::string& reason);
  void submit(Task task);
  /// Returns when all tasks have run and are destroyed. Throws the first error that one of them threw, in every call
  /// from then on: the ranks may be out of step.
  void wait();
  /// Waits until all such threads of this process, also those left behind, have run their tasks; false if one still has
  /// not, because other ranks do not join in: then MPI cannot be finalized.
  [[nodiscard]] static bool wait_for_all(std::chrono::milliseconds patience);

 private:
  struct Shared {
    std::function<std::shared_ptr<Communicator>()> make;  // makes it, on the thread; empty once it has
    std::shared_ptr<Communicator> comm;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    bool busy = false;
    bool stop = false;
    std::exception_ptr error;
    [[nodiscard]] bool idle() const { return tasks.empty() && !busy; }
  };
  /// What threads use, from their start to their end; of those left behind for the life of the process.
  struct Register {
    std::mutex mutex;
    std::vector<std::shared_ptr<Shared>> threads;
  };
  static void require_possible();
  void start();
  static Register& known();
  static void run(Shared& shared);
  static void make_communicator(Shared& shared);
  static void run_task(Shared& shared, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  bool reported_ = false;  // wait() has thrown the error
};

}  // namespace mn
