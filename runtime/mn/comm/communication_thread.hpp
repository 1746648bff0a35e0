/// A thread that makes collective calls while the program computes. All ranks create their threads together, and submit
/// the same collective calls in the same order.
///
/// Invariants:
/// 1. One thread at a time uses the communicator: this thread while it has tasks, otherwise the thread that owns the
///    CommunicationThread object.
/// 2. The first error ends all work: later tasks are dropped, and every wait() throws the error.
/// 3. While an exception unwinds the stack, the destructor waits for no rank, because some ranks may never make the
///    running call. Instead it detaches the thread; the thread, its tasks and its communicator may then last as long as
///    the process.
/// 4. MPI_Finalize must not run while a thread is in an MPI call. Therefore mn::Job calls wait_for_all() first.
/// 5. wait() does not hold the mutex when it throws. If nobody catches the exception, mn::Job's handler runs before the
///    stack unwinds, and must not find the mutex locked.
///
/// Cost: one MPI communicator, one thread, and two thread switches for each task.
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

/// Runs tasks in the order of submission. The thread has its own communicator with the ranks and the backend of the
/// program's communicator. Only one thread at a time may call submit() and wait().
class CommunicationThread {
 public:
  using Task = std::function<void(Communicator&)>;

  /// True if the program has started MPI with MPI_THREAD_MULTIPLE, which the thread needs.
  [[nodiscard]] static bool is_possible();
  /// Collective: makes the thread and its communicator. Throws UsageError unless is_possible().
  explicit CommunicationThread(const Communicator& comm);
  /// Not collective: the constructor only starts the thread. Before its first task the thread calls `make`, which makes
  /// the communicator and is collective over the threads of all ranks. Throws UsageError unless is_possible().
  explicit CommunicationThread(std::function<std::shared_ptr<Communicator>()> make);
  /// Waits for the tasks, and logs an error that no wait() has thrown. While an exception unwinds the stack, the
  /// destructor does not wait; the detached thread finishes the tasks. Therefore a task must own all memory that it
  /// uses.
  ~CommunicationThread();

  /// The thread's communicator. The program may use it while no task is submitted.
  [[nodiscard]] Communicator& communicator() noexcept { return *shared_->comm; }
  [[nodiscard]] bool has_communicator() const;
  /// Calls Communicator::abort() of the thread's communicator. Any thread may call the function.
  void abort(const std::string& reason);
  void submit(Task task);
  /// Returns when all tasks have run and are destroyed. Once a task has thrown, every wait() throws the first error.
  void wait();
  /// Waits, at most for `patience`, until all CommunicationThreads of the process, including detached ones, have run
  /// their tasks. False if a thread still waits for other ranks; MPI must not be finalized then.
  [[nodiscard]] static bool wait_for_all(std::chrono::milliseconds patience);

 private:
  struct Shared {
    std::function<std::shared_ptr<Communicator>()> make;  // called once by the thread; then empty
    std::shared_ptr<Communicator> comm;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    bool busy = false;
    bool stop = false;
    std::exception_ptr error;
    [[nodiscard]] bool idle() const { return tasks.empty() && !busy; }
  };
  /// The shared states of all CommunicationThreads of the process that still run. Lives as long as the process.
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
  bool reported_ = false;
};

}  // namespace mn
