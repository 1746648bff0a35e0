/// The start of the program, once the checks have passed.
#pragma once

#include "this_rank.hpp"

namespace mn::launcher {

/// The program of the self test, beside mnlaunch.
inline constexpr const char* kSelfTest = "mnlaunch-selftest";
[[nodiscard]] std::string path_of_self_test();

/// Binds this process, exports variables, and becomes the program, or with --doctor the self test. Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome);

}  // namespace mn::launcher
