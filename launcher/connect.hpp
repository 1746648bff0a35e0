/// Finding the launcher that started this rank, and the way to the other ranks.
#pragma once

#include <filesystem>
#include <string>

#include "cli/options.hpp"
#include "exchange/group.hpp"
#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

struct Connection {
  Placement here;
  Group group;               ///< the ranks with which this one can exchange facts
  std::string not_compared;  ///< why these are not all; empty: they are
};

/// Takes this rank's placement from variables and, where they leave it open, from a PMIx or PMI server. Prepares
/// `variables` for a program that is a PMIx client too, if it had to be one itself. Collective where a server must be
/// asked for several nodes. `program`: its own MPI may bring the libpmix to ask with. Throws Error.
[[nodiscard]] Connection connect_to_launcher(Variables& variables, const std::filesystem::path& program,
                                             const Options& options);

}  // namespace mn::launcher
