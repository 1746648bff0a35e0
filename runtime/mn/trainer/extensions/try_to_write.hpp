/// Files beside checkpoints, without which training goes on: a full disk must not end it.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <mn/core/log.hpp>

namespace mn::extensions {

/// Runs `write`; whether it succeeded. What it throws is a warning, unless `has_failed` says that it threw before too.
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

/// At the end of training: where the last write failed, runs `write` once more. What it throws is a warning.
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
