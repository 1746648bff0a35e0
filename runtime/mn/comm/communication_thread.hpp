/// A thread that makes collective calls while the program computes. All ranks make one together, and submit equal
/// collectives in one order.
///
/// Invariants:
/// 1. One thread at a time uses the communicator: the CommunicationThread while it has tasks, else the owner's thread.
/// 2. The first error ends all work: later tasks are dropped, and every wait() throws the error.
/// 3. While an exception unwinds, the destructor waits for no rank, because some ranks may never join the running
///    collective. The thread is left behind with its tasks, and its communicator for the life of the process.
/// 4. MPI_Finalize must not run beside a call of MPI on a thread: mn::Job calls wait_for_all() first.
/// 5. wait() throws without a lock: an uncaught exception reaches mn::Job before the stack unwinds.
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

/// Runs tasks in the order submitted, with a communicator of its own (equal ranks and backend). submit() and wait() are
/// for one thread at a time.
class CommunicationThread {
 public:
  using Task = std::function<void(Communicator&)>;

  /// Whether the program started MPI with MPI_THREAD_MULTIPLE.
  [[nodiscard]] static bool is_possible();
  /// Collective. Throws UsageError unless is_possible().
  explicit CommunicationThread(const Communicator& comm);
  /// Local: the thread calls `make`, which is collective over the threads of all ranks.
  explicit CommunicationThread(std::function<std::shared_ptr<Communicator>()> make);
  /// Waits for the tasks, which own their memory, unless an exception unwinds; logs an error that no wait() has thrown.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// For allocations and other collective set-up, while no task is submitted.
  [[nodiscard]] Communicator& communicator() noexcept { return *shared_->comm; }
  /// Whether the thread's communicator was made. Any thread.
  [[nodiscard]] bool has_communicator() const;
  /// Calls Communicator::abort() of the thread's communicator. Any thread.
  void abort(const std::string& reason);
  void submit(Task task);
  /// Returns when all tasks have run and are destroyed. After an error of a task, every wait() throws the first error.
  void wait();
  /// Waits until all CommunicationThreads of the process, also those left behind, have run their tasks. False if a
  /// thread still waits for other ranks: then MPI cannot be finalized.
  [[nodiscard]] static bool wait_for_all(std::chrono::milliseconds patience);

 private:
  struct Shared {
    std::function<std::shared_ptr<Communicator>()> make;  // the thread calls it once; then empty
    std::shared_ptr<Communicator> comm;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    bool busy = false;
    bool stop = false;
    std::exception_ptr error;
    [[nodiscard]] bool idle() const { return tasks.empty() && !busy; }
  };
  /// State of all running threads; of threads left behind for the life of the process.
  struct Register {
    std::mutex mutex;
    std::vector<std::shared_ptr<Shared>> threads;
  };
  static void require_possible();
  void start();
  static Register& running_threads();
  static void run(Shared& shared);
  static void make_communicator(Shared& shared);
  static void run_task(Shared& shared, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  bool reported_ = false;  // wait() has thrown the error
};

}  // namespace mn
