/// The rendezvous of a job's ranks: from a rank's placement to its group, with addresses and keys for the exchange; and
/// the programs' rendezvous, MASTER_ADDR and MASTER_PORT.
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

/// The group of the rank `here`, as yet without a way to other nodes.
[[nodiscard]] Group group_of(const Placement& here, const Variables& variables, const Options& options);

/// For a job that variables alone describe: makes the job's name unique among jobs with equal variables, and hard to
/// guess for other users.
void name_job_by_variables(Group& group, Placement& here, const Variables& variables);

/// Finds other nodes by addresses on the server's board: the first rank of each node puts them there, and rank 0 a key.
/// Collective over all ranks of the job. Throws CheckFailed if ranks are missing, CommError, and errors of the board.
void meet_on_board(Group& group, const Placement& here, const ServerJob& job, Board& board);

/// Finds other nodes by Slurm's names for them, with keys that munge seals, and returns an empty text. Under a launcher
/// without such names, the group becomes the ranks of this node, and the text says why: `why_silent`, unless it is
/// empty.
[[nodiscard]] std::string meet_by_variables(Group& group, const Placement& here, const Variables& variables,
                                            const std::string& why_silent);

/// On a node without a first rank, a rank without a sound position becomes the first: all ranks call the first rank,
/// and so learn of the error.
void lead_if_nobody_does(Group& group, const Placement& here);

/// For a line of rank 0, if nodes do not hear of each other: the fault of the MASTER_ADDR on other nodes, or an empty
/// text. `variables`: rank 0's.
[[nodiscard]] std::string master_elsewhere(const Variables& variables);

/// A port of the first range, derived from `job`.
[[nodiscard]] int port_of_job(std::string_view job, std::span<const PortRange> ranges);

/// port_of_job, or the next port of the ranges that is free on this host. Throws CommError if no port is free.
[[nodiscard]] int free_port_of_job(std::string_view job, std::span<const PortRange> ranges,
                                   const std::function<bool(int)>& is_free);

/// Whether a TCP server could listen on `port` of all addresses.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
