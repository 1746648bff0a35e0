/// Replica sets are for models that are divided into parts, where each rank holds one part. The ranks that hold the
/// same part are a replica set (ChainerMN's multi_node_snapshot(replica_sets)).
///
/// Each set has its own communicator, Trainer and folder of checkpoints:
///
///   const auto set = mn::create_replica_set(*comm, {{0, 2}, {1, 3}}, "result");
///   mn::Trainer trainer(set.comm, …, {.epochs = 9, .out = set.out});
///   trainer.extend(std::make_unique<mn::extensions::Snapshot>());
///   mn::resume_replica_sets(*comm, trainer);
///
/// A job may end when some sets have written a checkpoint and other sets have not. Therefore all sets resume from the
/// newest iteration of which every set has a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class Trainer;

/// The replica set to which this rank belongs.
struct ReplicaSet {
  std::shared_ptr<Communicator> comm;  ///< the set's ranks, in rank order
  int number = 0;                      ///< index in `replica_sets`; ranks that no set lists get the next numbers
  std::filesystem::path out;           ///< OUT/set-NUMBER
};

/// Collective over `comm`. All ranks must pass equal `replica_sets`. A rank that is in none of the sets becomes a set
/// of its own. Throws ArgumentError if two sets contain the same rank, or if a set contains a rank that `comm` does not
/// have.
[[nodiscard]] ReplicaSet create_replica_set(Communicator& comm, const std::vector<std::vector<int>>& replica_sets,
                                            const std::filesystem::path& out);

/// Collective over `comm`. Each rank passes the trainer of its set. All sets resume from the newest iteration of which
/// every set has a checkpoint. Returns false if there is no such iteration; training then starts at the beginning.
/// Throws as Trainer::resume() does.
bool resume_replica_sets(Communicator& comm, Trainer& trainer);

}  // namespace mn
