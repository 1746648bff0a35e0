/// How the nodes of a job learn where to reach each other, before they exchange anything themselves.
#pragma once

#include <string>
#include <vector>

#include "exchange/group.hpp"
#include "place/board.hpp"
#include "place/placement.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// MN_LAUNCH_KEY, as it is added to the name of a job that variables alone describe; may be empty.
[[nodiscard]] std::string key_of_user(const Variables& variables);

/// What all ranks of a Slurm step know and other users can hardly guess, to be added to the job's name: MN_LAUNCH_KEY,
/// and the port of its srun.
[[nodiscard]] std::string secret_of_step(const Variables& variables);

/// By the names that Slurm gives the nodes of a step, with keys that munge seals.
void reach_by_names(Group& group, const Placement& here, const Variables& variables);

/// By addresses that the first rank of each node puts on the server's board, with a key that rank 0 puts there.
/// `first_ranks`: by node. Collective over all ranks of the job. Throws CommError, and what the board throws.
void reach_by_board(Group& group, const Placement& here, const std::vector<int>& first_ranks, Board& board);

/// What is wrong with the MASTER_ADDR that nodes get which do not hear of each other, for a line of rank 0, whose
/// `variables` these are; else empty.
[[nodiscard]] std::string master_elsewhere(const Variables& variables);

}  // namespace mn::launcher
