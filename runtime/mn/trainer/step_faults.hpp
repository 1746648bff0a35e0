/// A fault that one rank finds in its step, and the error that all ranks throw for it.
///
/// A rank that throws alone leaves the others waiting in a collective call. So a rank keeps its fault, the reduction of
/// the step tells the other ranks that there is one, and then all ranks throw the same error.
#pragma once

#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

class StepFaults {
 public:
  /// True if this rank keeps a fault.
  [[nodiscard]] bool any() const noexcept { return !fault_.what.empty(); }
  /// Keeps a UsageError with this text, unless a fault is kept already; an empty text is no fault.
  void keep(const std::string& what);
  /// Runs `check`, and keeps the UsageError or ArgumentError that it throws, unless a fault is kept already.
  void keep_error_of(const std::function<void()>& check);
  /// No fault is kept.
  void forget() { fault_ = {}; }
  /// Collective over `ranks`: all throw the fault of the first rank that keeps one, and forget their own. Returns if no
  /// rank keeps a fault.
  void throw_first(Communicator& ranks);

 private:
  struct Fault {
    std::string what;
    bool is_argument = false;  // an ArgumentError, else a UsageError
  };
  void keep(Fault fault);

  Fault fault_;
};

}  // namespace mn
