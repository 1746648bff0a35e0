/// Batch normalization over the minibatches of all ranks, ChainerMN's MultiNodeBatchNormalization.
#pragma once

#include <memory>
#include <ostream>

#include <torch/nn/modules/batchnorm.h>

#include <mn/comm/communicator.hpp>

namespace mn {

struct BatchMoments;

/// torch::nn::BatchNorm1d, 2d and 3d in one, for input of shape (N, C, …): while it trains, mean and variance are those
/// of all ranks' samples, so that n ranks with batch b compute as one rank with batch n·b (torch.nn.SyncBatchNorm). For
/// small batches, as in detection and segmentation. Parameters, buffers, their names and the options are BatchNorm's,
/// so each loads the other's weights; running statistics are equal on all ranks.
///
/// forward() in training and its backward are collective: every rank runs both, the layers in the same order. N may
/// differ between ranks, and be 0 on some. In evaluation nothing is sent.
///
/// Backward takes losses to be means over samples that step(samples) weighs by N, unless the loss says what it weighs:
/// a Trainer's does, and MultiNodeOptimizer::scale_loss(loss, samples) in a loop of one's own.
///
/// Cost: forward one allgather of 2C + 2 numbers, backward one allreduce of 2C. On GPUs with NCCL both are enqueued on
/// the current stream, and the host waits for neither.
/// Source: S. Ioffe, C. Szegedy, arXiv:1502.03167; variances are merged by Chan, Golub and LeVeque's formula (1979).
class MultiNodeBatchNormImpl final
    : public torch::nn::NormImplBase<0, MultiNodeBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// All layers may share one communicator, the optimizer's too.
  MultiNodeBatchNormImpl(std::shared_ptr<Communicator> comm, const torch::nn::BatchNormOptions& options);

  /// Throws ArgumentError unless the input has C channels.
  at::Tensor forward(const at::Tensor& input);
  /// "mn::MultiNodeBatchNorm(64, eps=1e-05)".
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;
  void move_running_statistics(const BatchMoments& batch);

  std::shared_ptr<Communicator> comm_;
};
/// Holds a MultiNodeBatchNormImpl, as libtorch's modules are held.
TORCH_MODULE(MultiNodeBatchNorm);

}  // namespace mn
