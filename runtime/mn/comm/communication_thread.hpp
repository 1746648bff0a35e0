/// Collectives that go on while the program computes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A thread with a communicator of its own (the same ranks and backend) that runs tasks in the order submitted. All
/// ranks must submit the same collectives in the same order. submit() and wait() are for one thread at a time.
class CommunicationThread {
 public:
  using Task = std::function<void(Communicator&)>;

  /// Collective. Throws UsageError if MPI was started without MPI_THREAD_MULTIPLE.
  explicit CommunicationThread(const Communicator& comm);
  /// Waits for the tasks submitted; an error that nobody waited for is logged. While an exception unwinds it does not
  /// wait, for the other ranks may never join, and leaves the thread to itself: tasks must own what they use. They and
  /// the communicator then stay for ever, for the ranks free windows together, and some would come to that alone.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  /// For allocations and other collective set-up, while no task is under way.
  [[nodiscard]] Communicator& communicator() noexcept { return *shared_->comm; }
  void submit(Task task);
  /// Returns when all tasks have run, and destroys them, on this thread; throws the first error that one of them threw,
  /// in every call from then on. After it no task runs any more: the ranks may be out of step.
  void wait();
  /// Whether a thread of this process was left to itself.
  [[nodiscard]] static bool any_left() noexcept;
  /// Waits until those have run their tasks; false if one still has not, because other ranks don't join: then MPI can't
  /// be finalized.
  [[nodiscard]] static bool join_left(std::chrono::milliseconds patience);

 private:
  struct Shared {
    std::shared_ptr<Communicator> comm;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    std::vector<Task> done;  // not destroyed by the thread: what they own goes at the same point on all ranks
    bool busy = false;
    bool stop = false;
    bool ended = false;
    std::exception_ptr error;
  };
  static void run(Shared& shared);
  static std::vector<std::shared_ptr<Shared>>& left();

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  bool reported_ = false;  // wait() has thrown the error
};

}  // namespace mn
