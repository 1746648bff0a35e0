#include <mn/comm/communication_thread.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {

CommunicationThread::Register& CommunicationThread::running_threads() {
  static auto& all = *new Register;  // detached threads may outlive main()
  return all;
}

bool CommunicationThread::is_possible() { return mpi_takes_threads(); }

CommunicationThread::CommunicationThread(const Communicator& comm) {
  require_possible();
  shared_->comm = comm.split(0, comm.rank());
  start();
}

CommunicationThread::CommunicationThread(std::function<std::shared_ptr<Communicator>()> make) {
  require_possible();
  shared_->make = std::move(make);
  start();
}

void CommunicationThread::require_possible() {
  if (!is_possible()) {
    throw UsageError(
        "communication in the background needs MPI_THREAD_MULTIPLE, which this MPI did not provide: "
        "switch overlap and double buffering off, or use an MPI built with thread support");
  }
}

void CommunicationThread::start() {
  {
    const std::lock_guard lock(running_threads().mutex);
    running_threads().threads.push_back(shared_);
  }
  thread_ = std::thread([shared = shared_] { run(*shared); });
}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  // The thread may be in a call that other ranks never make.
  if (std::uncaught_exceptions() > 0) {
    thread_.detach();
    return;
  }
  thread_.join();
  {
    const std::lock_guard lock(running_threads().mutex);
    std::erase(running_threads().threads, shared_);
  }
  if (!shared_->error || reported_) return;
  try {
    std::rethrow_exception(shared_->error);
  } catch (const std::exception& error) {
    log_error(std::string("communication in the background failed: ") + error.what());
  }
}

bool CommunicationThread::has_communicator() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->comm != nullptr;
}

void CommunicationThread::abort(const std::string& reason) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->comm) shared_->comm->abort(reason);
}

void CommunicationThread::submit(Task task) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->error) return;
    shared_->tasks.push_back(std::move(task));
  }
  shared_->changed.notify_all();
}

void CommunicationThread::wait() {
  const BackgroundWait waiting;
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->error || shared_->idle(); });
  const std::exception_ptr error = shared_->error;
  lock.unlock();
  reported_ = error != nullptr;
  if (reported_) std::rethrow_exception(error);
}

bool CommunicationThread::wait_for_all(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::lock_guard all(running_threads().mutex);
  return std::ranges::all_of(running_threads().threads, [&](const auto& shared) {
    std::unique_lock lock(shared->mutex);
    return shared->changed.wait_until(lock, deadline, [&] { return shared->idle(); });
  });
}

void CommunicationThread::run(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (true) {
    shared.changed.wait(lock, [&] { return shared.stop || !shared.tasks.empty(); });
    if (shared.tasks.empty()) return;
    run_task(shared, lock);
    shared.changed.notify_all();
  }
}

void CommunicationThread::make_communicator(Shared& shared) {
  // Without the lock: the call waits for other ranks.
  auto comm = std::exchange(shared.make, nullptr)();
  const std::lock_guard lock(shared.mutex);
  shared.comm = std::move(comm);
}

/// Runs the next task. Does not hold the lock while the task runs and while its memory is freed.
void CommunicationThread::run_task(Shared& shared, std::unique_lock<std::mutex>& lock) {
  assert(!shared.tasks.empty() && !shared.busy);
  Task task = std::move(shared.tasks.front());
  shared.tasks.pop_front();
  shared.busy = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    if (shared.make) make_communicator(shared);
    task(*shared.comm);
  } catch (...) {
    error = std::current_exception();
  }
  // Without the lock: the task may own GPU memory, and freeing it waits for the GPU.
  task = nullptr;
  lock.lock();
  shared.busy = false;
  if (!error) return;
  shared.error = error;
  shared.tasks.clear();
}

}  // namespace mn
