/// The last step of a start, once all ranks have agreed: exports, bindings, output, exec.
#pragma once

#include <optional>
#include <vector>

#include "rounds/this_rank.hpp"
#include "start/output.hpp"
#include "start/start_links.hpp"

namespace mn::launcher {

/// What a rank keeps between the last round and exec.
struct PreparedStart {
  std::optional<OutputFiles> output;
  std::vector<KeptLink> links;
};

/// Binds the process and opens output files: each step of a start that can fail on a single rank. Throws Error.
[[nodiscard]] PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome);

/// Exports variables and becomes the program or, with --doctor, the self test. Throws Error.
[[noreturn]] void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared);

}  // namespace mn::launcher
