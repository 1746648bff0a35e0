/// Batch normalization in an exported model's graph: over one rank's minibatch, or over the minibatches of all ranks.
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn {

struct GraphBatchNorms {
  int others = 0;  ///< batch norms not replaced: made of other operators by run_decompositions(), or in torch.cond
  /// True if a batch norm in training gets one value of a channel from each sample; a minibatch then needs two samples.
  bool need_two = false;
};

/// Replaces aten.batch_norm in the program's graph by an operator that has the same arguments and obeys BatchNormScope.
GraphBatchNorms replace_batch_norms(exported::Program& program);

/// While an object lives, this thread's replaced batch norms in training normalize over the ranks of `comm`. If `comm`
/// is null, they compute as libtorch's batch norm.
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
