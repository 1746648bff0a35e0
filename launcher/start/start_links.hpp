/// What stays of the exchange in the program: the connections by whose end mn::Job notices ranks that die before MPI is
/// up (mn/job/start_watch.hpp).
#pragma once

#include <utility>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/start_links.hpp>

#include "exchange/exchange.hpp"
#include "place/variables.hpp"
#include "rounds/roster.hpp"

namespace mn::launcher {

/// A connection that exec closes, unless it is left open.
struct KeptLink {
  Fd socket;
  StartLink link;
};

/// Duplicates of all connections of this rank.
[[nodiscard]] std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster);

/// Leaves them open in the program that is about to be started with `variables`, which may be a script that starts
/// another with mn::Job.
void leave_links(const std::vector<KeptLink>& links, Variables& variables);

}  // namespace mn::launcher
