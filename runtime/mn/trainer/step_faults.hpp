/// Keeps the faults that a rank finds in a step, so that all ranks throw the same error.
///
/// If the rank threw alone, all other ranks would wait forever in a collective call. Therefore the rank only keeps its
/// fault. The reduction of the step tells all ranks that a rank has a fault, and after the reduction all ranks throw
/// the fault.
#pragma once

#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

class StepFaults {
 public:
  /// True if this rank keeps a fault.
  [[nodiscard]] bool any() const noexcept { return !fault_.what.empty(); }
  /// Keeps a UsageError with the text `what`. Does nothing if a fault is kept already, or if `what` is empty.
  void keep(const std::string& what);
  /// Runs `check`. If `check` throws a UsageError or an ArgumentError, keeps this error, unless a fault is kept
  /// already.
  void keep_error_of(const std::function<void()>& check);
  /// Forgets the kept fault, if any.
  void forget() { fault_ = {}; }
  /// Collective. If some ranks keep a fault, all ranks throw the fault of the lowest of these ranks, and forget their
  /// own faults.
  void throw_first(Communicator& ranks);

 private:
  struct Fault {
    std::string what;
    bool is_argument = false;  // true: an ArgumentError; false: a UsageError
  };
  void keep(Fault fault);

  Fault fault_;
};

}  // namespace mn
