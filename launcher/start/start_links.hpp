/// Connections of the exchange that the program inherits: by their end, mn::Job notices ranks that die before MPI is up
/// (mn/job/start_watch.hpp).
#pragma once

#include <utility>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/start_links.hpp>

#include "exchange/exchange.hpp"
#include "place/variables.hpp"
#include "rounds/roster.hpp"

namespace mn::launcher {

/// A connection closed by exec, unless leave_links() leaves it open.
struct KeptLink {
  Fd socket;
  StartLink link;
};

/// Duplicates of all connections of this rank.
[[nodiscard]] std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster);

/// Leaves the connections open in the program, which is started with `variables`. The program may be a script that
/// starts a program with mn::Job.
void leave_links(const std::vector<KeptLink>& links, Variables& variables);

}  // namespace mn::launcher
