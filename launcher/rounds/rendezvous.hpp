/// How the mnlaunch processes of a job find each other. Makes the group of a rank (exchange/group.hpp), with addresses
/// and keys, from the rank's placement. Also finds MASTER_ADDR and MASTER_PORT, by which the programs of the ranks find
/// each other.
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

/// Makes the group of the rank `here`. The group has no addresses of remote nodes yet.
[[nodiscard]] Group group_of(const Placement& here, const Variables& variables, const Options& options);

/// For a job that is described by variables alone: adds to the job's name, so that no two jobs with equal variables
/// share a name, and foreign users can hardly guess the name.
void name_job_by_variables(Group& group, Placement& here, const Variables& variables);

/// Finds the remote nodes through the board of the launcher's server. The first rank of each node puts the addresses of
/// the node on the board, and rank 0 adds a key. Collective over all ranks of the job. Throws CheckFailed if ranks are
/// missing, CommError, and errors of the board.
void meet_on_board(Group& group, const Placement& here, const ServerJob& job, Board& board);

/// If Slurm names the nodes of the job, prepares the group to find the nodes by name, with keys sealed by munge, and
/// returns an empty text. Otherwise reduces the group to the ranks of this node and returns the reason: `why_silent`,
/// or a text of its own if `why_silent` is empty.
[[nodiscard]] std::string meet_by_variables(Group& group, const Placement& here, const Variables& variables,
                                            const std::string& why_silent);

/// Makes this rank the first rank of its node if this rank has no valid position and the node has no first rank. All
/// ranks of the node connect to the first rank, and learn of the error of this rank.
void lead_if_nobody_does(Group& group, const Placement& here);

/// Returns the last words of rank 0's note that the nodes were not compared. If the remaining nodes get a MASTER_ADDR
/// that is not rank 0's host, the last words are a warning; otherwise the result is empty. `variables` are rank 0's
/// variables.
[[nodiscard]] std::string master_elsewhere(const Variables& variables);

/// Chooses a port of the first of `ranges`; the choice depends only on `job`, the name of the job.
[[nodiscard]] int port_of_job(std::string_view job, std::span<const PortRange> ranges);

/// Returns port_of_job() if this port is free on this host, else the next free port of `ranges`. Throws CommError if no
/// port is free.
[[nodiscard]] int free_port_of_job(std::string_view job, std::span<const PortRange> ranges,
                                   const std::function<bool(int)>& is_free);

/// Whether a TCP server could listen on `port` at all addresses of this host.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
