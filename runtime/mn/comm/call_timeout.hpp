/// A time-out for some calls of a communicator: included by <mn/comm/communicator.hpp>.
#pragma once

#include <chrono>

namespace mn {

class Communicator;

/// The time-out of the calls that this rank makes on `comm` while it lives; then the one before counts again.
class CallTimeout {
 public:
  /// `timeout` 0: none. Collective calls need one on all ranks or on none. `comm` must outlive it.
  CallTimeout(Communicator& comm, std::chrono::milliseconds timeout);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;             ///< not copyable
  CallTimeout& operator=(const CallTimeout&) = delete;  ///< not copyable

 private:
  Communicator& comm_;
  std::chrono::milliseconds before_;
};

}  // namespace mn
