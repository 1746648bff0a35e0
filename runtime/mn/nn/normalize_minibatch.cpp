// Batch normalization as one node of autograd's graph: moments (channel_moments.hpp), then mn's fused operators, which
// also add a shortcut and apply ReLU.
//
// Cost on a GPU for a value of a 16-bit dtype: 16 bytes of memory traffic. Forward reads the input twice and writes the
// output; backward reads input and gradient twice and writes a gradient. A shortcut adds 2 bytes forward, 4 backward.
//
// (1) For kRanks, each rank sends the means and standard deviations of its channels, and the number of values of a
//     channel. Every rank merges what all ranks have sent, in rank order. The ranks do not send sums of squares,
//     because the variance computed from them would lose digits if a mean is large.
// (2) dx = w σ⁻¹ (dy − Σdy / n − x̂ Σ(dy x̂) / n), with sums over all ranks. The gradients of weight and bias are sums
//     over this rank only, like the gradients of all parameters; the optimizer takes their mean over ranks.
// (3) The optimizer multiplies rank r's gradient by a weight vᵣ. In the backward of a weighted loss, dy already has the
//     factor vᵣ. Otherwise vᵣ is the number of rank r's samples, and rank r uses Σₛ vₛ Σdyₛ / vᵣ in place of the sum,
//     because the optimizer will multiply by vᵣ later.
// (4) A rank without values runs no kernel on its minibatch.
#include <mn/nn/normalize_minibatch.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <mn/core/error.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/tensor/kept_value.hpp>
#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `counts`, only for kRanks, has each rank's number of values of a channel.
struct Statistics {
  ChannelMoments moments;
  at::Tensor counts;
};

/// Any finite moments will do for a rank without values.
ChannelMoments no_moments(const at::Tensor& input) {
  const auto options = input.options().dtype(moments_type(input));
  return {at::zeros({input.size(1)}, options), at::ones({input.size(1)}, options)};
}

/// Collective. Computes the moments over the minibatches of all ranks.
Statistics statistics_of_ranks(const at::Tensor& input, double eps, const RunningMoments& running, Communicator& comm) {
  const std::int64_t channels = input.size(1), values = input.numel() / channels;
  const auto options = input.options().dtype(moments_type(input));
  const ChannelMoments own = values > 0 ? channel_moments(input, eps) : no_moments(input);
  const at::Tensor row = at::cat({own.mean, own.invstd, at::full({1}, static_cast<double>(values), options)});
  const at::Tensor all = at::empty({comm.size(), row.numel()}, options);
  ordered_allgather(comm, row, all);
  const at::Tensor counts = all.select(1, 2 * channels);
  const ChannelMoments of_ranks{all.narrow(1, 0, channels), all.narrow(1, channels, channels)};
  return {merge_moments(of_ranks, counts, values, eps, running), counts};
}

Statistics statistics_of(const at::Tensor& input, const RunningMoments& running, const BatchNormSettings& settings) {
  const at::NoGradGuard no_grad;
  if (settings.moments == MomentsOf::kRanks) return statistics_of_ranks(input, settings.eps, running, *settings.comm);
  if (settings.moments == MomentsOf::kRunning) return {{running.mean, at::rsqrt(running.variance + settings.eps)}, {}};
  return {input.numel() > 0 ? own_moments(input, settings.eps, running) : no_moments(input), {}};
}

/// Returns mean, invstd, weight (default 1) and bias (default 0) of each channel, in the dtype of computations on x.
std::vector<at::Tensor> channel_numbers(const at::Tensor& x, const ChannelMoments& moments,
                                        const std::optional<at::Tensor>& weight,
                                        const std::optional<at::Tensor>& bias) {
  const at::ScalarType real = kernels::real_type(x.scalar_type());
  const auto options = moments.mean.options().dtype(real);
  std::vector<at::Tensor> all = {moments.mean, moments.invstd, weight ? *weight : at::ones({x.size(1)}, options),
                                 bias ? *bias : at::zeros({x.size(1)}, options)};
  for (at::Tensor& numbers : all) numbers = numbers.detach().to(real).contiguous();
  return all;
}

class Normalization : public torch::autograd::Function<Normalization> {
 public:
  /// A missing argument is an empty std::optional, because an undefined tensor can't be an input of the node.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& added,
                            const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                            const Statistics& all, const BatchNormSettings& settings) {
    const std::vector<at::Tensor> channels = channel_numbers(input, all.moments, weight, bias);
    const at::Tensor output = input.numel() > 0 ? kernels::call_operator<kernels::BatchNormForwardSignature>(
                                                      "mn::batch_norm_forward", input, added, channels, settings.relu)
                                                : at::empty_like(input);
    variable_list saved = {input, added ? output : at::Tensor(), all.counts};
    saved.insert(saved.end(), channels.begin(), channels.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["with_weight"] = weight.has_value();
    context->saved_data["with_bias"] = bias.has_value();
    keep_value(context, settings);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const auto output = saved[1].defined() ? std::optional(saved[1]) : std::nullopt;  // only with a shortcut
    const std::vector<at::Tensor> channels(saved.begin() + 3, saved.end());
    const auto& settings = kept_value<BatchNormSettings>(context);
    const bool relu = settings.relu, has_values = input.numel() > 0;
    const at::Tensor dy = gradients[0].to(input.scalar_type()).contiguous(input.suggest_memory_format());
    at::Tensor own = at::zeros({2, input.size(1)}, channels[0].options()), d_added = dy;  // stays 0 without values
    if (has_values) {
      std::tie(own, d_added) = kernels::call_operator<kernels::BatchNormSumsSignature>("mn::batch_norm_sums", dy, input,
                                                                                       output, channels, relu);
    }
    std::optional<at::Tensor> sums;
    double count = static_cast<double>(input.numel() / input.size(1));
    if (settings.moments == MomentsOf::kRanks) {
      sums = mean_over_ranks(own, saved[2], input.size(0), settings.comm);
      count = 1;
    } else if (settings.moments == MomentsOf::kMinibatch) {
      sums = own;
    }
    variable_list all(6);  // gradients of input, added, weight, bias, and two arguments that are not tensors
    all[0] = dy;
    if (has_values) {
      all[0] = kernels::call_operator<kernels::BatchNormBackwardSignature>(
          "mn::batch_norm_backward", output ? d_added : dy, input, channels, sums, count, relu && !output);
    }
    if (output) all[1] = d_added;
    if (context->saved_data["with_weight"].toBool()) all[2] = own[1];
    if (context->saved_data["with_bias"].toBool()) all[3] = own[0];
    return at::GradMode::is_enabled() ? without_gradients(std::move(all), {input, dy}) : all;
  }

 private:
  /// The results depend on `origins`, but autograd does not record how. Therefore a second derivative (create_graph)
  /// must fail: a node that throws gets `origins`, which require gradients, as further arguments.
  static variable_list without_gradients(variable_list all, const variable_list& origins) {
    const std::size_t count = all.size();
    all.insert(all.end(), origins.begin(), origins.end());
    const auto final = std::make_shared<torch::autograd::DelayedError>(
        "the gradients of mn::MultiNodeBatchNorm and mn::batch_norm_relu() can't be differentiated",
        static_cast<std::int64_t>(all.size()));
    all = final->apply(std::move(all));
    all.resize(count);
    return all;
  }

  /// Returns the sum of `own` over ranks, divided by the number of all values. Each rank's `own` is weighted as in (3)
  /// at the top: if the loss was not weighted, by `samples`, the number of the calling rank's samples.
  static at::Tensor mean_over_ranks(const at::Tensor& own, const at::Tensor& counts, std::int64_t samples,
                                    const std::shared_ptr<Communicator>& comm) {
    const double factor = pass_gradients_over(comm).value_or(static_cast<double>(std::max(samples, std::int64_t{1})));
    const at::Tensor all = own * factor;
    ordered_allreduce(*comm, all);
    return all / (counts.sum() * factor);
  }
};

void check(const at::Tensor& input, const std::optional<at::Tensor>& added, const std::optional<at::Tensor>& weight,
           const std::optional<at::Tensor>& bias, const RunningMoments& running, const BatchNormSettings& settings) {
  const auto fail = [&](const std::string& what) {
    throw ArgumentError("a batch norm of " + kernels::text_of(input) + " got " + what);
  };
  if (input.dim() < 2 || input.size(1) == 0) fail("no channels: (N, C, ...) was expected");
  if (added && (added->sizes() != input.sizes() || added->device() != input.device()))
    fail("a shortcut " + kernels::text_of(*added));
  for (const at::Tensor& numbers : {weight.value_or(at::Tensor()), bias.value_or(at::Tensor()), running.mean})
    if (numbers.defined() && (numbers.numel() != input.size(1) || numbers.device() != input.device()))
      fail("a weight, bias or mean " + kernels::text_of(numbers));
  if (settings.moments == MomentsOf::kMinibatch && input.numel() == input.size(1))
    fail("one value of each channel, which has no variance to train with: give larger images or more samples");
}

/// Normalizes without other ranks on a CPU, where libtorch's operators are as fast as mn's.
at::Tensor normalize_by_libtorch(const at::Tensor& input, const std::optional<at::Tensor>& added,
                                 const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                 const RunningMoments& running, const BatchNormSettings& settings) {
  const at::Tensor y =
      at::batch_norm(input, weight, bias, running.mean, running.variance, settings.moments == MomentsOf::kMinibatch,
                     running.momentum, settings.eps, /*cudnn_enabled=*/false);
  if (added) y.add_(*added);
  return settings.relu ? y.relu_() : y;
}

}  // namespace

at::Tensor normalize_minibatch(const at::Tensor& input, const std::optional<at::Tensor>& added,
                               const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                               const RunningMoments& running, const BatchNormSettings& settings) {
  check(input, added, weight, bias, running, settings);
  if (input.is_cpu() && settings.moments != MomentsOf::kRanks)
    return normalize_by_libtorch(input, added, weight, bias, running, settings);
  const at::MemoryFormat format = input.suggest_memory_format();
  const at::Tensor dense = input.contiguous(format);
  const auto shortcut = added ? std::optional(added->to(input.scalar_type()).contiguous(format)) : std::nullopt;
  const Statistics all = statistics_of(dense, running, settings);
  const at::Tensor output = Normalization::apply(dense, shortcut, weight, bias, all, settings);
  if (settings.moments == MomentsOf::kRanks && any_narrow_gradients()) mark_collective(output, settings.comm);
  return output;
}

}  // namespace mn
