#include <mn/nn/batch_norm.hpp>

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/multi_node_batch_norm.hpp>

namespace mn {
namespace {

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
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
    const bool from_input = !options.track_running_stats();  // without running statistics, as libtorch does
    return at::batch_norm(input, weight, bias, running_mean, running_var, from_input, 0, options.eps(), true);
  }
  return multi_node_batch_norm(input, if_defined(weight), if_defined(bias), options.eps(), running(), comm_);
}

RunningMoments MultiNodeBatchNormImpl::running() {
  if (!options.track_running_stats()) return {};
  const at::NoGradGuard no_grad;
  num_batches_tracked += 1;
  const double momentum = options.momentum() ? *options.momentum() : 1.0 / num_batches_tracked.item<double>();
  return {running_mean, running_var, momentum};
}

void MultiNodeBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "mn::MultiNodeBatchNorm(" << options.num_features() << ", eps=" << options.eps() << ")";
}

}  // namespace mn
