/// The first step of a start: the rank and job of this process, and its way to the other ranks.
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
  Group group;               ///< ranks with which facts can be exchanged
  std::string not_compared;  ///< why the group lacks the ranks of other nodes; empty: it has all ranks of the job
};

/// Takes the rank's placement from variables or, if variables leave it open, from a PMIx or PMI server; a PMIx server
/// is asked with the libpmix of `program`'s own MPI, if there is one. Collective over the job if a server is asked and
/// the job has several nodes. After a PMIx server was asked, `variables` are fit for a program that asks again. Throws
/// Error.
[[nodiscard]] Connection connect_to_launcher(Variables& variables, const std::filesystem::path& program,
                                             const Options& options);

}  // namespace mn::launcher
