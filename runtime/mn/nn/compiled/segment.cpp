#include <mn/nn/compiled/segment.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/kept_value.hpp>

namespace mn::compiled {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensor, or a copy whose strides have the order of a dense tensor.
at::Tensor in_order(const at::Tensor& tensor, const std::vector<std::int64_t>& order) {
  if (order.empty()) return tensor.contiguous();
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse.at(order[i]) = static_cast<std::int64_t>(i);
  const at::Tensor permuted = tensor.permute(order);
  return permuted.is_contiguous() ? tensor : permuted.contiguous().permute(inverse);
}

/// What backward needs of a call beside tensors.
struct Call {
  std::shared_ptr<const Segment> segment;
  c10::Device device;
  std::vector<std::vector<std::int64_t>> sizes;  ///< the size of the output of each tangent
};

}  // namespace

/// Autograd's function of a call. An output that the loss does not use has no gradient, and gives none to inputs.
class SegmentCall : public torch::autograd::Function<SegmentCall> {
 public:
  static variable_list forward(AutogradContext* context, const std::shared_ptr<const Segment>& segment,
                               at::TensorList inputs) {
    const SegmentForm& form = segment->form_;
    variable_list results = segment->compute(inputs.vec()), saved, constants;
    for (const Saved& each : form.saved) saved.push_back(each.is_input ? inputs[each.index] : results.at(each.index));
    results.resize(form.outputs);
    for (std::size_t i = 0; i < form.outputs; ++i) {
      if (std::ranges::find(form.tangents, i, &Tangent::output) == form.tangents.end()) constants.push_back(results[i]);
    }
    context->save_for_backward(std::move(saved));
    context->mark_non_differentiable(constants);
    context->set_materialize_grads(false);
    Call call{segment, inputs.front().device(), {}};
    for (const Tangent& each : form.tangents) call.sizes.push_back(results.at(each.output).sizes().vec());
    keep_value(context, std::move(call));
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& [segment, device, sizes] = kept_value<Call>(context);
    const SegmentForm& form = segment->form_;
    if (at::GradMode::is_enabled()) {
      throw ArgumentError("the gradients of the compiled " + form.name +
                          " can't be differentiated (create_graph): a package holds first derivatives");
    }
    std::vector<at::Tensor> arguments = context->get_saved_variables();
    for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = in_order(arguments[i], form.saved[i].order);
    for (std::size_t i = 0; i < form.tangents.size(); ++i) {
      const Tangent& tangent = form.tangents[i];
      at::Tensor given = gradients.at(tangent.output);
      if (!given.defined()) given = at::zeros(sizes[i], at::TensorOptions().dtype(tangent.form.dtype).device(device));
      arguments.push_back(in_order(given, tangent.form.order));
    }
    const std::vector<at::Tensor> computed = segment->backward_->run(arguments);
    variable_list result(1 + form.inputs.size());  // the first is for `segment`
    const auto is_given = [&](std::size_t tangent) { return gradients[form.tangents[tangent].output].defined(); };
    for (std::size_t i = 0; i < form.gradients.size(); ++i) {
      const auto& [input, tangents] = form.gradients[i];
      if (tangents.empty() || std::ranges::any_of(tangents, is_given)) result.at(1 + input) = computed.at(i);
    }
    return result;
  }
};

Segment::Segment(SegmentForm form, std::unique_ptr<Library> forward, std::unique_ptr<Library> backward)
    : form_(std::move(form)), forward_(std::move(forward)), backward_(std::move(backward)) {}

void Segment::check(const std::vector<at::Tensor>& inputs) const {
  std::map<std::string, std::int64_t> sizes;
  const auto fits = [&](const Size& size, std::int64_t given) {
    if (const auto* fixed = std::get_if<std::int64_t>(&size)) return *fixed == given;
    return sizes.emplace(std::get<std::string>(size), given).first->second == given;
  };
  bool is_right = inputs.size() == form_.inputs.size() && !inputs.empty();
  for (std::size_t i = 0; is_right && i < inputs.size(); ++i) {
    const Form& form = form_.inputs[i];
    is_right = inputs[i].defined() && inputs[i].device() == inputs.front().device() &&
               std::ranges::equal(form.sizes, inputs[i].sizes(), fits);
    if (is_right && inputs[i].scalar_type() == form.dtype) continue;
    OutText text;
    text << "input " << i << " of the compiled " << form_.name;
    if (inputs[i].defined()) text << " is " << toString(inputs[i].scalar_type()) << " " << inputs[i].sizes();
    text << "; it was compiled for " << toString(form.dtype) << " [";
    for (const char* comma = ""; const Size& size : form.sizes) {
      std::visit([&](const auto& each) { text << comma << each; }, size);
      comma = ", ";
    }
    throw ArgumentError(text.str() + "]");
  }
  if (!is_right) throw ArgumentError("the compiled " + form_.name + " was given a wrong number of inputs");
}

std::vector<at::Tensor> Segment::compute(std::vector<at::Tensor> arguments) const {
  if (form_.seeds > 0) {
    using Limits = std::numeric_limits<std::int64_t>;
    arguments.push_back(at::randint(Limits::min(), Limits::max(), {form_.seeds},
                                    at::TensorOptions().dtype(at::kLong).device(arguments.front().device())));
  }
  std::vector<at::Tensor> results = forward_->run(arguments);
  if (results.size() < form_.outputs) throw Error("the library of " + form_.name + " has too few results");
  return results;
}

std::vector<at::Tensor> Segment::run(std::vector<at::Tensor> inputs) const {
  check(inputs);
  bool needs_grad = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = in_order(inputs[i], form_.inputs[i].order);
    if (!at::GradMode::is_enabled() || !inputs[i].requires_grad()) continue;
    needs_grad = true;
    if (std::ranges::find(form_.trained, i) == form_.trained.end()) {
      throw ArgumentError(
          "the compiled " + form_.name +
          (form_.trained.empty()
               ? " has no gradients, as compiled for evaluation: call forward() under torch::NoGradGuard"
               : " has no gradient of its input " + std::to_string(i) +
                     ", which requires one: packages have gradients of the parameters whose requires_grad was set, and "
                     "none of the model's inputs"));
    }
  }
  if (needs_grad && !form_.gradients.empty()) return SegmentCall::apply(shared_from_this(), at::TensorList(inputs));
  std::vector<at::Tensor> results = compute(std::move(inputs));
  results.resize(form_.outputs);
  return results;
}

}  // namespace mn::compiled
