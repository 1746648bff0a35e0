#pragma once

#include <string>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>

namespace mn::launcher {

/// The job must not start. An empty text: another rank says why.
class CheckFailed : public Error {
 public:
  explicit CheckFailed(const std::string& what, bool on_all_ranks = false) : Error(what), on_all_ranks_(on_all_ranks) {}
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
  [[nodiscard]] bool on_all_ranks() const noexcept override { return on_all_ranks_; }

 private:
  bool on_all_ranks_;
};

}  // namespace mn::launcher
