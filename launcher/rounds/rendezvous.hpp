/// How the mnlaunch processes of a job find each other: makes a rank's group (exchange/group.hpp), with addresses and
/// keys, from the rank's placement. Also derives MASTER_ADDR and MASTER_PORT, by which the programs find each other.
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

/// The group of the rank `here`, without addresses of other nodes.
[[nodiscard]] Group group_of(const Placement& here, const Variables& variables, const Options& options);

/// For a job that variables alone describe: makes the job's name unique among jobs with equal variables, and hard to
/// guess for other users.
void name_job_by_variables(Group& group, Placement& here, const Variables& variables);

/// Finds other nodes by addresses on the board of the launcher's server: the first rank of each node puts the node's
/// addresses on the board, and rank 0 puts a key there. Collective over all ranks of the job. Throws CheckFailed if
/// ranks are missing, CommError, and errors of the board.
void meet_on_board(Group& group, const Placement& here, const ServerJob& job, Board& board);

/// If Slurm names the nodes, finds other nodes by these names, uses keys that munge seals, and returns an empty text.
/// Otherwise reduces the group to the ranks of this node, and returns the reason: `why_silent`, or a text of its own if
/// `why_silent` is empty.
[[nodiscard]] std::string meet_by_variables(Group& group, const Placement& here, const Variables& variables,
                                            const std::string& why_silent);

/// If this rank has no sound position and its node has no first rank, this rank becomes the first. All ranks of the
/// node connect to the first rank, and so learn of the error.
void lead_if_nobody_does(Group& group, const Placement& here);

/// Returns the end of rank 0's note that nodes were not compared: a warning if other nodes get a MASTER_ADDR that is
/// not rank 0's host, else an empty text. `variables`: rank 0's variables.
[[nodiscard]] std::string master_elsewhere(const Variables& variables);

/// Derives a port of the first range from `job`, the job's name.
[[nodiscard]] int port_of_job(std::string_view job, std::span<const PortRange> ranges);

/// Returns port_of_job(), or the next port of the ranges if that port is not free on this host. Throws CommError if no
/// port is free.
[[nodiscard]] int free_port_of_job(std::string_view job, std::span<const PortRange> ranges,
                                   const std::function<bool(int)>& is_free);

/// Whether a TCP server could listen on `port` at all addresses of this host.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
