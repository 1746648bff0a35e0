/// Models in parts: ranks that hold the same part are a replica set (ChainerMN's multi_node_snapshot(replica_sets)).
///
/// Each set has a communicator, a Trainer and a folder of checkpoints of its own:
///
///   const auto set = mn::create_replica_set(*comm, {{0, 2}, {1, 3}}, "result");
///   mn::Trainer trainer(set.comm, …, {.epochs = 9, .out = set.out});
///   trainer.extend(std::make_unique<mn::extensions::Snapshot>());
///   mn::resume_replica_sets(*comm, trainer);
///
/// A job that ends between the checkpoints of two sets resumes from the newest iteration that all sets have.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class Trainer;

/// What a rank trains with.
struct ReplicaSet {
  std::shared_ptr<Communicator> comm;  ///< the set's ranks, in rank order
  int number = 0;                      ///< sets count as they were given, then ranks that none of them lists
  std::filesystem::path out;           ///< OUT/set-NUMBER
};

/// Collective over `comm`; all ranks give the same sets. A rank that no set lists is one by itself. Throws
/// ArgumentError if two sets list a rank, or one that `comm` does not have.
[[nodiscard]] ReplicaSet create_replica_set(Communicator& comm, const std::vector<std::vector<int>>& replica_sets,
                                            const std::filesystem::path& out);

/// Collective over `comm`, each rank with the trainer of its set: all resume from the checkpoint of the newest
/// iteration that every set has. Returns false if there is none: training starts at the beginning. Throws what
/// Trainer::resume() throws.
bool resume_replica_sets(Communicator& comm, Trainer& trainer);

}  // namespace mn
