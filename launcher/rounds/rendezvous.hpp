/// How the mnlaunch processes of a job find each other: a rank's group (exchange/group.hpp), with addresses and keys.
/// Also finds MASTER_ADDR and MASTER_PORT for the programs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <mn/core/net/port_range.hpp>

#include "cli/options.hpp"
#include "exchange/group.hpp"
#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Makes the group of the rank `here`, without addresses of remote nodes.
[[nodiscard]] Group group_of(const Placement& here, const Variables& variables, const Options& options);

/// For a job described by variables alone: makes its name unique and hard to guess.
void name_job_by_variables(Group& group, Placement& here, const Variables& variables);

/// Finds the remote nodes through the board: the first rank of each node puts the node's addresses there, and rank 0
/// adds a key. Collective over all ranks. Throws CheckFailed if ranks are missing, CommError, and errors of the board.
void meet_on_board(Group& group, const Placement& here, const ServerJob& job, Board& board);

/// Lets the group find the nodes by their names in Slurm, with keys sealed by munge. If Slurm names none, reduces the
/// group to this node and returns the reason (`why_silent` if not empty).
[[nodiscard]] std::string meet_by_variables(Group& group, const Placement& here, const Variables& variables,
                                            const std::string& why_silent);

/// Makes a rank without a valid position the node's first rank if there is none, so all ranks learn of the error.
void lead_if_nobody_does(Group& group, const Placement& here);

/// Rank 0 notes that the nodes were not compared. Returns a warning to append to this note if they get a MASTER_ADDR
/// other than rank 0's host; else an empty text. `variables` are rank 0's.
[[nodiscard]] std::string master_elsewhere(const Variables& variables);

/// Chooses a port of the first of `ranges` that depends only on `job`, the name of the job.
[[nodiscard]] int port_of_job(std::string_view job, std::span<const PortRange> ranges);

/// Returns port_of_job(), or the next port of `ranges` that is free on this host. Throws CommError if there is none.
[[nodiscard]] int free_port_of_job(std::string_view job, std::span<const PortRange> ranges,
                                   const std::function<bool(int)>& is_free);

/// Whether a TCP server could listen on `port` at all addresses of this host.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
