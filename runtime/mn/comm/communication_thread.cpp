#include <mn/comm/communication_thread.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {

CommunicationThread::CommunicationThread(const Communicator& comm) {
  int provided = MPI_THREAD_SINGLE;
  mpi_check(MPI_Query_thread(&provided), "MPI_Query_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    throw UsageError(
        "communication in the background needs MPI_THREAD_MULTIPLE, which this MPI did not provide: "
        "switch overlap and double buffering off, or use an MPI built with thread support");
  }
  comm_ = comm.split(0, comm.rank());
  thread_ = std::thread([this] { run(); });
}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!error_) return;
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    log_error(std::string("communication in the background failed: ") + error.what());
  }
}

void CommunicationThread::submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void CommunicationThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ || (tasks_.empty() && !busy_); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CommunicationThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      task(*comm_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (error) {
      error_ = error;
      tasks_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace mn
