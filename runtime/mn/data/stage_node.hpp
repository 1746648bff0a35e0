/// What the processes of a node share to keep copies of a dataset's files.
#pragma once

#include <utility>

#include <mn/core/fd.hpp>
#include <mn/data/stage_file.hpp>
#include <mn/data/stage_peers.hpp>

namespace mn::data {

struct StageNode {
  explicit StageNode(StageFile copies, int processes = 1) : file(std::move(copies)), parts(processes) {}

  StageFile file;         ///< for all copies of the node
  int parts;              ///< processes of the node that share the file
  StageNodes nodes = {};  ///< the job's
  Fd listener = {};       ///< in one process: serves the node's copies to other nodes
};

}  // namespace mn::data
