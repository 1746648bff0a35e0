/// A layer for batch normalization over the minibatches of all ranks: ChainerMN's MultiNodeBatchNormalization.
#pragma once

#include <memory>
#include <ostream>

#include <torch/nn/modules/batchnorm.h>

#include <mn/comm/communicator.hpp>

namespace mn {

struct RunningMoments;

/// Replaces torch::nn::BatchNorm1d, 2d and 3d, for input of shape (N, C, …). In training, mean and variance are taken
/// over the samples of all ranks, as in torch.nn.SyncBatchNorm: n ranks with batch b compute what one rank with batch
/// n·b computes. This helps if batches are small, as in detection and segmentation. Options, parameters, buffers and
/// names are BatchNorm's; therefore BatchNorm loads this layer's weights and vice versa. Running statistics are equal
/// on all ranks, to rounding. If a channel has fewer than two values on all ranks together, its running statistics stay
/// unchanged.
///
/// forward() in training and its backward are collective: every rank runs both, and runs several layers in the same
/// order. N may differ between ranks, and may be 0. In evaluation mode nothing is sent.
///
/// If a rank's loss was not weighted, backward assumes that the loss is a mean over N samples, and that the program
/// will call step(N). A Trainer weighs the loss; in a program's own loop MultiNodeOptimizer::scale_loss(loss, samples)
/// does.
///
/// Cost: forward one allgather of 2C + 1 numbers, backward one allreduce of 2C numbers. On GPUs with NCCL both are
/// enqueued on the current stream, and the host does not wait; libtorch's kernels of torch.nn.SyncBatchNorm move 16
/// bytes for each value of a 16-bit dtype, forward and backward together. Source: S. Ioffe, C. Szegedy,
/// arXiv:1502.03167; variances are merged by Chan, Golub and LeVeque's formula (1979).
class MultiNodeBatchNormImpl final
    : public torch::nn::NormImplBase<0, MultiNodeBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// All layers and the optimizer may share one communicator.
  MultiNodeBatchNormImpl(std::shared_ptr<Communicator> comm, const torch::nn::BatchNormOptions& options);

  /// Throws ArgumentError unless the input has C channels.
  at::Tensor forward(const at::Tensor& input);
  /// Prints a text like "mn::MultiNodeBatchNorm(64, eps=1e-05)".
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;
  /// Returns the running statistics, and counts this minibatch for their momentum.
  RunningMoments running();

  std::shared_ptr<Communicator> comm_;
};
/// libtorch's holder (a shared pointer) of a MultiNodeBatchNormImpl.
TORCH_MODULE(MultiNodeBatchNorm);

}  // namespace mn
