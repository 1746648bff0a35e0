/// A time-out for some calls of a communicator; included by <mn/comm/communicator.hpp>.
#pragma once

#include <chrono>

namespace mn {

class Communicator;

/// While it lives, the calls of the rank on `comm` have `timeout`; its destructor restores the former time-out.
class CallTimeout {
 public:
  /// `timeout` 0: none. Collective calls need a time-out on all ranks, or on none. `comm` must outlive the object.
  CallTimeout(Communicator& comm, std::chrono::milliseconds timeout);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;             ///< not copyable
  CallTimeout& operator=(const CallTimeout&) = delete;  ///< not copyable

 private:
  Communicator& comm_;
  std::chrono::milliseconds before_;
};

}  // namespace mn
