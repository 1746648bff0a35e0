/// Writes to standard output, and checks for errors.
#pragma once

#include <cerrno>
#include <iostream>
#include <string_view>

#include <mn/core/error.hpp>

namespace mn {

/// Writes the text and flushes. Throws Error if standard output rejects the text, for example because the disk is full
/// or the stream is closed.
inline void write_standard_output(std::string_view text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Error(with_errno("cannot write standard output", errno));
}

}  // namespace mn
