// Synchronized batch normalization as one autograd node. The kernels are those of batch_norm_kernels.hpp.
//
// (1) Each rank sends the means and standard deviations of its channels, and the number of values of a channel. Every
//     rank merges what all ranks have sent, in rank order. The ranks do not send sums of squares, because the variance
//     computed from them would lose digits if a mean is large.
// (2) dx = w σ⁻¹ (dy − Σdy / n − x̂ Σ(dy x̂) / n), with sums over all ranks. The gradients of weight and bias are sums
//     over this rank only, like the gradients of all parameters; the optimizer takes their mean over ranks.
// (3) The optimizer multiplies rank r's gradient by a weight vᵣ. In the backward of a weighted loss, dy already has the
//     factor vᵣ. Otherwise vᵣ is the number of rank r's samples, and rank r uses Σₛ vₛ Σdyₛ / vᵣ in place of the sum,
//     because the optimizer will multiply by vᵣ later.
// (4) A rank without values runs no kernel on its minibatch.
#include <mn/nn/multi_node_batch_norm.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The moments (mean and standard deviation) of all ranks' values, and how many values of a channel each rank has.
struct Statistics {
  ChannelMoments moments;
  at::Tensor counts;
};

/// Collective. Computes the mean and standard deviation of each channel over the minibatches of all ranks.
Statistics statistics_of(const at::Tensor& input, double eps, const RunningMoments& running, Communicator& comm) {
  const std::int64_t channels = input.size(1), values = input.numel() / channels;
  const auto options = input.options().dtype(moments_type(input));
  const ChannelMoments own =
      values > 0 ? channel_moments(input, eps)
                 : ChannelMoments{at::zeros({channels}, options), at::ones({channels}, options)};  // (4): no values
  const at::Tensor row = at::cat({own.mean, own.invstd, at::full({1}, static_cast<double>(values), options)});
  const at::Tensor all = at::empty({comm.size(), row.numel()}, options);
  ordered_allgather(comm, row, all);
  const at::Tensor counts = all.select(1, 2 * channels);
  const ChannelMoments of_ranks{all.narrow(1, 0, channels), all.narrow(1, channels, channels)};
  return {merge_moments(of_ranks, counts, values, eps, running), counts};
}

/// Keeps the communicator alive for the backward, which may run after the layer is destroyed.
struct KeptCommunicator : torch::CustomClassHolder {
  explicit KeptCommunicator(std::shared_ptr<Communicator> given) : comm(std::move(given)) {}
  std::shared_ptr<Communicator> comm;
};

class Normalization : public torch::autograd::Function<Normalization> {
 public:
  /// If the layer is not affine, `weight` and `bias` have no value: an undefined tensor can't be an input of the node.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const Statistics& all,
                            const std::shared_ptr<Communicator>& comm) {
    const auto& [mean, invstd] = all.moments;
    context->save_for_backward({input, weight.value_or(at::Tensor()), mean, invstd, all.counts});
    context->saved_data["comm"] = c10::IValue::make_capsule(c10::make_intrusive<KeptCommunicator>(comm));
    return input.numel() > 0 ? normalize(input, all.moments, weight, bias) : at::empty_like(input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const auto weight = saved[1].defined() ? std::optional(saved[1]) : std::nullopt;
    const ChannelMoments moments{saved[2], saved[3]};
    const auto kept = c10::static_intrusive_pointer_cast<KeptCommunicator>(context->saved_data["comm"].toCapsule());
    const at::Tensor dy = gradients[0].to(input.scalar_type()).contiguous(input.suggest_memory_format());
    const GradientSums own = input.numel() > 0 ? gradient_sums(dy, input, moments, weight) : no_sums(moments, weight);
    const std::int64_t channels = input.size(1);
    const at::Tensor sums = sum_over_ranks(at::cat({own.dy, own.dy_xmu}), input.size(0), kept->comm);
    const at::Tensor result = input.numel() > 0
                                  ? input_gradient(dy, input, moments, weight, sums.narrow(0, 0, channels),
                                                   sums.narrow(0, channels, channels), saved[4])
                                  : at::empty_like(input);
    // Marks the results as not differentiable again: the dependence on the moments is not recorded; therefore gradients
    // of these gradients (create_graph) would be wrong.
    const auto final = std::make_shared<torch::autograd::DelayedError>(
        "the gradients of mn::MultiNodeBatchNorm can't be differentiated", 3);
    variable_list all = final->apply({result, own.for_weight, own.for_bias});
    all.resize(5);
    return all;
  }

 private:
  /// Returns the sums of a rank without values, which runs no kernel (4): zeros.
  static GradientSums no_sums(const ChannelMoments& moments, const std::optional<at::Tensor>& weight) {
    const at::Tensor none = at::zeros_like(moments.mean);
    if (!weight) return {none, none, {}, {}};
    return {none, none, at::zeros_like(*weight), at::zeros_like(*weight)};
  }

  /// Returns the sum of `all` over ranks, with the weights of (3). `samples` is the number of this rank's samples, the
  /// weight if the loss was not weighted.
  static at::Tensor sum_over_ranks(at::Tensor all, std::int64_t samples, const std::shared_ptr<Communicator>& comm) {
    const double factor = pass_gradients_over(comm).value_or(static_cast<double>(std::max(samples, std::int64_t{1})));
    if (factor != 1) all = all * factor;
    ordered_allreduce(*comm, all);
    return factor == 1 ? all : all / factor;
  }
};

}  // namespace

at::Tensor multi_node_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias, double eps, const RunningMoments& running,
                                 const std::shared_ptr<Communicator>& comm) {
  const at::Tensor dense = input.contiguous(input.suggest_memory_format());
  Statistics all;
  {
    const at::NoGradGuard no_grad;
    all = statistics_of(dense, eps, running, *comm);
  }
  const at::Tensor output = Normalization::apply(dense, weight, bias, all, comm);
  if (any_narrow_gradients()) mark_collective(output, comm);
  return output;
}

}  // namespace mn
