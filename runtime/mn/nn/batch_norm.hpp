/// Two kinds of batch normalization: a layer over the minibatches of all ranks (ChainerMN's
/// MultiNodeBatchNormalization), and batch normalization fused with the addition and ReLU that follow it in a ResNet.
#pragma once

#include <memory>
#include <ostream>

#include <torch/nn/modules/batchnorm.h>

#include <mn/comm/communicator.hpp>

namespace mn {

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
/// enqueued on the current stream, and the host does not wait. The kernels move 16 bytes for each value of a 16-bit
/// dtype, forward and backward together. Source: S. Ioffe, C. Szegedy, arXiv:1502.03167; variances are merged by Chan,
/// Golub and LeVeque's formula (1979).
class MultiNodeBatchNormImpl final
    : public torch::nn::NormImplBase<0, MultiNodeBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// `comm` may be shared by all layers and the optimizer.
  MultiNodeBatchNormImpl(std::shared_ptr<Communicator> comm, const torch::nn::BatchNormOptions& options);

  /// Throws ArgumentError unless the input has C channels.
  at::Tensor forward(const at::Tensor& input);
  /// Prints a text like "mn::MultiNodeBatchNorm(64, eps=1e-05)".
  void pretty_print(std::ostream& stream) const override;

  /// The communicator that the constructor got.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }

 private:
  void _check_input_dim(const at::Tensor& input) override;

  std::shared_ptr<Communicator> comm_;
};
/// libtorch's holder (a shared pointer) of a MultiNodeBatchNormImpl.
TORCH_MODULE(MultiNodeBatchNorm);

/// Returns relu(layer(input) + added) in fewer passes over memory; without `added`, relu(layer(input)). `added` has the
/// input's shape. The layer's mode decides as in its forward(): training uses the minibatch's mean and variance and
/// moves the running statistics; evaluation uses the running statistics.
///
/// The input is (N, C, …), of float32, bfloat16, float16 or float64, contiguous or channels_last. Statistics are
/// float32, or float64 for float64. On a GPU, forward and backward together move 16 bytes for each value of a 16-bit
/// dtype, and 22 with `added`; as libtorch's operators they move 26 and 32. Backward keeps the input, and with `added`
/// the result, but no further tensor of this size. On a CPU, libtorch's operators run. The gradients can't be
/// differentiated on a GPU. Throws ArgumentError for wrong shapes, and if a layer in training gets one value of each
/// channel. Local: sends nothing to other ranks.
[[nodiscard]] at::Tensor batch_norm_relu(const torch::nn::BatchNorm2d& layer, const at::Tensor& input,
                                         const at::Tensor& added = {});
/// Computes relu(layer(input) + added), as the function above, but with batch normalization over all ranks. Collective
/// in training, as the layer's forward() is.
[[nodiscard]] at::Tensor batch_norm_relu(const MultiNodeBatchNorm& layer, const at::Tensor& input,
                                         const at::Tensor& added = {});

}  // namespace mn
