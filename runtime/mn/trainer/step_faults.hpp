/// Faults of a step: one rank finds a fault, and all ranks throw the error.
///
/// If one rank threw alone, its peers would wait forever in a collective call. So the rank keeps its fault. The step's
/// reduction tells all ranks that a rank has a fault, and then all ranks throw equal errors.
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
  /// Forgets the kept fault, if any.
  void forget() { fault_ = {}; }
  /// Collective over `ranks`. All ranks throw the fault of the lowest rank that has a fault, and forget their own
  /// faults. Returns if no rank has a fault.
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
