#include <mn/nn/batch_norm.hpp>

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/normalize_minibatch.hpp>

namespace mn {
namespace {

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Counts this minibatch if the layer counts them. Returns the running statistics, and this minibatch's weight in them.
template <class Layer>
RunningMoments count_minibatch(Layer& layer) {
  if (!layer.options.track_running_stats()) return {};
  const at::NoGradGuard no_grad;
  layer.num_batches_tracked.add_(1);
  const double momentum =
      layer.options.momentum() ? *layer.options.momentum() : 1.0 / layer.num_batches_tracked.template item<double>();
  return {layer.running_mean, layer.running_var, momentum};
}

/// `trained` says whose moments are used in training. In evaluation the layer's options decide.
template <class Layer>
at::Tensor normalize_by_mode(Layer& layer, const at::Tensor& input, const at::Tensor& added, MomentsOf trained,
                             const std::shared_ptr<Communicator>& comm, bool relu) {
  BatchNormSettings settings{trained, comm, layer.options.eps(), relu};
  RunningMoments running;
  if (layer.is_training()) {
    running = count_minibatch(layer);
  } else if (layer.options.track_running_stats()) {
    settings.moments = MomentsOf::kRunning;
    running = {layer.running_mean, layer.running_var};
  } else {
    settings.moments = MomentsOf::kMinibatch;  // as libtorch does if there are no running statistics
  }
  return normalize_minibatch(input, if_defined(added), if_defined(layer.weight), if_defined(layer.bias), running,
                             settings);
}

}  // namespace

MultiNodeBatchNormImpl::MultiNodeBatchNormImpl(std::shared_ptr<Communicator> comm,
                                               const torch::nn::BatchNormOptions& given)
    : NormImplBase(given), comm_(std::move(comm)) {
  if (!comm_) throw ArgumentError("MultiNodeBatchNorm got no communicator");
}

void MultiNodeBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  const std::string shape = join(input.sizes());
  throw ArgumentError("MultiNodeBatchNorm of " + std::to_string(options.num_features()) +
                      " channels got an input of shape (" + shape + "): (N, C, ...) was expected");
}

at::Tensor MultiNodeBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  if (!is_training()) {
    const bool from_input = !options.track_running_stats();  // as libtorch does
    return at::batch_norm(input, weight, bias, running_mean, running_var, from_input, 0, options.eps(), true);
  }
  return normalize_by_mode(*this, input, {}, MomentsOf::kRanks, comm_, /*relu=*/false);
}

void MultiNodeBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "mn::MultiNodeBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

at::Tensor batch_norm_relu(const torch::nn::BatchNorm2d& layer, const at::Tensor& input, const at::Tensor& added) {
  return normalize_by_mode(*layer, input, added, MomentsOf::kMinibatch, nullptr, /*relu=*/true);
}

at::Tensor batch_norm_relu(const MultiNodeBatchNorm& layer, const at::Tensor& input, const at::Tensor& added) {
  return normalize_by_mode(*layer, input, added, MomentsOf::kRanks, layer->communicator(), /*relu=*/true);
}

}  // namespace mn
