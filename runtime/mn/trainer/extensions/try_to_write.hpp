/// Writes output files that are less important than checkpoints: a full disk must not end a training.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <mn/core/log.hpp>

namespace mn::extensions {

/// Calls `write`. Of several exceptions in a row, the first one is logged as a warning. `has_failed` stores whether the
/// last call has failed; returns the opposite.
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

/// Called at the end: if the last write has failed, calls `write` once more. An exception is logged as a warning.
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
