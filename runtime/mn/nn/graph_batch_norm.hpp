/// Batch normalization in the graph of an exported model: over one rank's minibatch, or over the minibatches of all
/// ranks.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn {

/// The batch norms of a graph.
struct GraphBatchNorms {
  int others = 0;  ///< batch norms by other operators, such as run_decompositions() leaves, or within torch.cond
  /// A batch norm in training gets one value of a channel from each sample, so it needs two samples.
  bool need_two = false;
};

/// Replaces aten.batch_norm by an operator with equal arguments that reads the BatchNormScope.
GraphBatchNorms replace_batch_norms(exported::Program& program);

/// While an object lives, this thread's replaced batch norms in training normalize over the ranks of `comm`. If `comm`
/// is null, they compute as libtorch's batch norm does.
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
