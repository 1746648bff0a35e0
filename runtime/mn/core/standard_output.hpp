/// Writes to standard output, and checks for errors.
#pragma once

#include <cerrno>
#include <iostream>
#include <string_view>

#include <mn/core/error.hpp>

namespace mn {

/// Writes the text and flushes. Throws Error if standard output is closed, or if its disk is full.
inline void write_standard_output(std::string_view text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Error(with_errno("cannot write standard output", errno));
}

}  // namespace mn
