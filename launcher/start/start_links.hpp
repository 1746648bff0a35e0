/// What stays of the exchange in a program with mn::Job: the connections by whose end it notices ranks that die before
/// MPI is up (mn/job/start_watch.hpp).
#pragma once

#include <filesystem>
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

/// Leaves them open in `program`, which is about to be started with `variables`, if it has a mn::Job.
void leave_links(const std::vector<KeptLink>& links, const std::filesystem::path& program, Variables& variables);

}  // namespace mn::launcher
