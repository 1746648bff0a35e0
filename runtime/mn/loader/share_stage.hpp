/// The ranks of a node keep their copies of a dataset's files together, and the nodes of a job find each other's.
#pragma once

#include <filesystem>
#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/data/stage_peers.hpp>

namespace mn {

/// Collective. The first rank of each node makes the file for copies in `folder`, and listens for other nodes if there
/// are any. Returns null, with a warning, on a node that can't make or open its file.
[[nodiscard]] std::shared_ptr<const data::StageNode> share_stage_node(const std::filesystem::path& folder,
                                                                      Communicator& comm);

}  // namespace mn
