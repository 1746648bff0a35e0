/// Standard output for programs whose text must not be lost without a word.
#pragma once

#include <cerrno>
#include <iostream>
#include <string_view>

#include <mn/core/error.hpp>

namespace mn {

/// Throws Error where standard output does not take the text: a full disk, a stream that is closed.
inline void write_standard_output(std::string_view text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Error(with_errno("cannot write standard output", errno));
}

}  // namespace mn
