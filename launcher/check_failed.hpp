#pragma once

#include <string>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// A failed check: exit status 78.
class CheckError : public Error {
 public:
  explicit CheckError(const std::string& what, bool on_all_ranks = false) : Error(what), on_all_ranks_(on_all_ranks) {}
  [[nodiscard]] int exit_code() const noexcept override { return kExitCode; }
  [[nodiscard]] bool on_all_ranks() const noexcept override { return on_all_ranks_; }
  static constexpr int kExitCode = 78;

 private:
  bool on_all_ranks_;
};

}  // namespace mn::launcher
