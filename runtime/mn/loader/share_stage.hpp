/// Lets the ranks of a node share one file with copies of a dataset's files.
#pragma once

#include <filesystem>
#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/data/stage_peers.hpp>

namespace mn {

/// Collective over `comm`; blocks. The first rank of each node makes a file in `folder`, for the node's copies. If the
/// job has several nodes, this rank also listens for requests of other nodes. If the file cannot be made, logs a
/// warning and returns null on all ranks of the node. A rank that cannot open the file logs a warning and gets null.
[[nodiscard]] std::shared_ptr<const data::StageNode> share_stage_node(const std::filesystem::path& folder,
                                                                      Communicator& comm);

}  // namespace mn
