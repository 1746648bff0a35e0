/// Faults of a step. If one rank finds a fault, all ranks throw the error.
///
/// If one rank threw alone, its peers would wait forever in a collective call. Therefore the rank keeps its fault. The
/// step's reduction tells all ranks that a rank has a fault, and then all ranks throw the same error.
#pragma once

#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

class StepFaults {
 public:
  /// True if this rank keeps a fault.
  [[nodiscard]] bool any() const noexcept { return !fault_.what.empty(); }
  /// Keeps a UsageError with this text, unless a fault is kept already, or `what` is empty.
  void keep(const std::string& what);
  /// Runs `check`. If it throws a UsageError or an ArgumentError, keeps this error, unless a fault is kept already.
  void keep_error_of(const std::function<void()>& check);
  /// Forgets the kept fault, if any.
  void forget() { fault_ = {}; }
  /// Collective: if some ranks keep a fault, all throw the lowest rank's fault, and forget their own.
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
