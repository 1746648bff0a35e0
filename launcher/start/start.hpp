/// The start of the program, once the checks have passed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rounds/this_rank.hpp"
#include "start/output.hpp"
#include "start/start_links.hpp"

namespace mn::launcher {

/// The program of the self test, beside mnlaunch.
inline constexpr const char* kSelfTest = "mnlaunch-selftest";
[[nodiscard]] std::string path_of_self_test();

/// What is ready for the start.
struct Prepared {
  std::optional<OutputFiles> output;
  std::vector<KeptLink> links;
};

/// Binds this process and opens its output: all of the start that can fail on one rank alone. Throws Error.
[[nodiscard]] Prepared prepare_start(const ThisRank& rank, const Outcome& outcome);

/// Exports variables and becomes the program, or with --doctor the self test. Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome, const Prepared& prepared);

}  // namespace mn::launcher
