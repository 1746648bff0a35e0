/// Writes output files that are less important than a training. If a write fails, because the disk is full for
/// instance, the training goes on.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <mn/core/log.hpp>

namespace mn::extensions {

/// Calls `write`, and returns false if `write` throws. Of several exceptions in a row, only the first is logged, as a
/// warning. `has_failed` stores, from call to call, whether the last call has failed.
template <class Write>
bool try_to_write(bool& has_failed, const Write& write) {
  try {
    write();
    has_failed = false;
  } catch (const std::exception& error) {
    if (!std::exchange(has_failed, true)) log_warning(std::string(error.what()) + "; the next write tries again");
  }
  return !has_failed;
}

/// Called at the end. If the last write has failed, calls `write` once more. If `write` throws again, logs a warning.
template <class Write>
void complete(bool& has_failed, const Write& write) {
  if (!has_failed) return;
  try {
    write();
    has_failed = false;
  } catch (const std::exception& error) {
    log_warning(std::string(error.what()) + "; training is over, and what could not be written is missing there");
  }
}

}  // namespace mn::extensions
