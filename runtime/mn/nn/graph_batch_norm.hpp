/// Batch normalization in the graph of an exported model: libtorch's, or over the minibatches of all ranks.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn {

/// The batch norms of a graph.
struct GraphBatchNorms {
  int replaced = 0;  ///< which normalize over ranks within a BatchNormScope
  int others = 0;    ///< batch norms by other operators, such as run_decompositions() leaves, or within torch.cond
  /// Whether one of them trains, and gets one value of a channel from each sample: it needs two samples.
  bool need_two = false;
};
/// Replaces aten.batch_norm by an operator of the same arguments, which asks for the scope.
GraphBatchNorms replace_batch_norms(exported::Program& program);

/// While it lives, replaced batch norms that this thread runs in training normalize over `comm`; null: as libtorch's.
class BatchNormScope {
 public:
  explicit BatchNormScope(std::shared_ptr<Communicator> comm);
  ~BatchNormScope();
  BatchNormScope(const BatchNormScope&) = delete;
  BatchNormScope& operator=(const BatchNormScope&) = delete;

 private:
  std::shared_ptr<Communicator> before_;
};

}  // namespace mn
