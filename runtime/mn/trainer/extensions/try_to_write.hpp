/// Writes of output files beside checkpoints: a full disk must not end a training.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <mn/core/log.hpp>

namespace mn::extensions {

/// Runs `write` and returns whether it succeeded. If several calls in a row fail, only the first exception is logged,
/// as a warning. `has_failed` keeps whether the last call failed.
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

/// At the end of training: if the last write failed, runs `write` once more. An exception is logged as a warning.
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
