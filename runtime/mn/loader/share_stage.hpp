/// Lets the ranks of a node share one file with copies of a dataset's files. Each node also learns the addresses at
/// which other nodes offer their copies.
#pragma once

#include <filesystem>
#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/data/stage_peers.hpp>

namespace mn {

/// Collective over `comm`; blocks. The first rank of each node makes a file in `folder`, in which the node will keep
/// copies. If the job has several nodes, this rank also listens for requests of other nodes. If the file cannot be
/// made, logs a warning and returns null on all ranks of the node. If a single rank cannot open the file, this rank
/// logs a warning and gets null, and the others get the file.
[[nodiscard]] std::shared_ptr<const data::StageNode> share_stage_node(const std::filesystem::path& folder,
                                                                      Communicator& comm);

}  // namespace mn
