// Synchronized batch normalization as one autograd node.
//
// (1) Each rank sends its means, its sums of squared deviations, and the number of values of a channel. Every rank
//     merges the numbers of all ranks in rank order, so all ranks get equal bits. Sums of squares are not used, because
//     they lose digits if a mean is large.
// (2) Statistics are float64 for float64 input, else float32.
// (3) dx = w σ⁻¹ (dy − Σdy / n − x̂ Σ(dy x̂) / n), with sums over all ranks. The gradients of weight and bias are sums
//     over this rank only, as every parameter's; the optimizer takes the mean over ranks.
// (4) The optimizer multiplies rank r's gradient by a weight vᵣ. In the backward of a weighted loss, dy already has the
//     factor vᵣ. Otherwise vᵣ is the number of rank r's samples, and rank r uses Σₛ vₛ Σdyₛ / vᵣ in place of the sum,
//     because the optimizer will multiply by vᵣ later.
#include <mn/nn/batch_moments.hpp>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All dimensions of the input except the channels.
std::vector<std::int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

/// Reshapes `values`, one for each channel, so that they broadcast to the input's shape.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// For input on the host, gather() and sum() pass host memory to the communicator, even if its device is a GPU.

void gather(const at::Tensor& own, const at::Tensor& all, Communicator& comm) {
  const auto blocking = [&] { comm.allgather(own, all); };
  if (own.is_cpu()) return blocking();
  in_stream_order(
      comm, [&](DeviceCollectives& device) { device.allgather(buffer_view(own), buffer_view(all)); }, blocking);
}

void sum(const at::Tensor& values, Communicator& comm) {
  const auto blocking = [&] { comm.allreduce(values); };
  if (values.is_cpu()) return blocking();
  in_stream_order(
      comm, [&](DeviceCollectives& device) { device.allreduce(buffer_view(values), ReduceOp::kSum); }, blocking);
}

/// Statistics of all ranks' values: mean and sum of squared deviations of each channel, number of values of a channel,
/// and number of each rank's samples.
struct Statistics {
  at::Tensor mean, squares, count, samples;
};

Statistics statistics_of(const at::Tensor& input, Communicator& comm) {
  const at::Tensor x = input.to(statistics_type(input));
  const std::int64_t channels = x.size(1);
  at::Tensor mean = at::zeros({channels}, x.options());
  at::Tensor squares = mean;
  const std::int64_t values = x.numel() / channels;
  if (values > 0) {
    std::tie(squares, mean) = at::var_mean(x, reduced_dims(x), /*correction=*/0);
    squares = squares * static_cast<double>(values);
  }
  const auto number = [&](std::int64_t n) { return at::full({1}, static_cast<double>(n), x.options()); };
  const at::Tensor own = at::cat({mean, squares, number(values), number(x.size(0))});
  const at::Tensor all = at::empty({comm.size(), own.numel()}, x.options());
  gather(own, all, comm);
  const at::Tensor means = all.narrow(1, 0, channels);
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);
  const at::Tensor count = counts.sum();
  const at::Tensor merged = (means * counts).sum(0) / count.clamp_min(1);
  const at::Tensor between = ((means - merged).square() * counts).sum(0);
  const at::Tensor samples = all.select(1, 2 * channels + 1).clone();
  return {merged, all.narrow(1, channels, channels).sum(0) + between, count, samples};
}

/// Keeps the communicator alive for the backward, which may run after the layer is destroyed.
struct KeptCommunicator : torch::CustomClassHolder {
  explicit KeptCommunicator(std::shared_ptr<Communicator> given) : comm(std::move(given)) {}
  std::shared_ptr<Communicator> comm;
};

class Normalization : public torch::autograd::Function<Normalization> {
 public:
  /// Without affine() `weight` and `bias` have no value, because autograd's inputs must be defined tensors.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const Statistics& all, const at::Tensor& scale,
                            const std::shared_ptr<Communicator>& comm) {
    context->save_for_backward({input, weight.value_or(at::Tensor()), all.mean, scale, all.count, all.samples});
    context->saved_data["comm"] = c10::IValue::make_capsule(c10::make_intrusive<KeptCommunicator>(comm));
    at::Tensor output = (input - by_channel(all.mean, input)) * by_channel(scale, input);
    if (weight) output = output * by_channel(*weight, input) + by_channel(*bias, input);
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &scale = saved[3], &count = saved[4];
    const auto kept = c10::static_intrusive_pointer_cast<KeptCommunicator>(context->saved_data["comm"].toCapsule());
    const at::Tensor normal = (input - by_channel(saved[2], input)) * by_channel(scale, input);
    const at::Tensor gradient = gradients[0].to(normal.scalar_type());
    const std::vector<std::int64_t> dims = reduced_dims(input);
    const at::Tensor own = at::cat({gradient.sum(dims), (gradient * normal).sum(dims)});
    const std::int64_t channels = input.size(1);
    const at::Tensor mean = sum_over_ranks(own, saved[5], kept->comm) / count.clamp_min(1);
    at::Tensor result = gradient - by_channel(mean.narrow(0, 0, channels), input) -
                        normal * by_channel(mean.narrow(0, channels, channels), input);
    result = result * by_channel(weight.defined() ? scale * weight : scale, input);
    at::Tensor of_weight, of_bias;
    if (weight.defined()) {
      of_bias = own.narrow(0, 0, channels).to(weight.scalar_type());
      of_weight = own.narrow(0, channels, channels).to(weight.scalar_type());
    }
    // The dependence on mean and scale is not recorded, so gradients of these gradients (create_graph) would be wrong.
    const auto final = std::make_shared<torch::autograd::DelayedError>(
        "the gradients of mn::MultiNodeBatchNorm can't be differentiated", 3);
    variable_list all = final->apply({result.to(input.scalar_type()), of_weight, of_bias});
    all.resize(6);
    return all;
  }

 private:
  /// The sum over ranks as (4) defines it. `samples` has the number of each rank's samples.
  static at::Tensor sum_over_ranks(const at::Tensor& own, const at::Tensor& samples,
                                   const std::shared_ptr<Communicator>& comm) {
    if (const auto unit = pass_gradients_over(comm)) {
      at::Tensor all = own * *unit;
      sum(all, *comm);
      return all / *unit;
    }
    const at::Tensor weight = samples[comm->rank()];
    at::Tensor all = own * weight;
    sum(all, *comm);
    return all / weight.clamp_min(1);
  }
};

}  // namespace

BatchMoments multi_node_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                   const std::optional<at::Tensor>& bias, double eps,
                                   const std::shared_ptr<Communicator>& comm) {
  Statistics all;
  at::Tensor scale;
  {
    const at::NoGradGuard no_grad;
    all = statistics_of(input, *comm);
    scale = at::rsqrt(all.squares / all.count.clamp_min(1) + eps);
  }
  const at::Tensor output = Normalization::apply(input, weight, bias, all, scale, comm);
  if (any_narrow_gradients()) mark_collective(output, comm);
  return {output, all.mean, all.squares / (all.count - 1).clamp_min(1)};
}

}  // namespace mn
