/// The ranks of a node share one file for their copies of a dataset's files, and each node learns the addresses at
/// which other nodes offer their copies.
#pragma once

#include <filesystem>
#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/data/stage_peers.hpp>

namespace mn {

/// Collective over `comm`; blocks. The first rank of each node makes the file for copies in `folder`, and listens for
/// requests of other nodes if the job has several nodes. If a node can't make or open its file, logs a warning and
/// returns null on the node's ranks.
[[nodiscard]] std::shared_ptr<const data::StageNode> share_stage_node(const std::filesystem::path& folder,
                                                                      Communicator& comm);

}  // namespace mn
