#include <mn/nn/compiled/segment.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>

namespace mn::compiled {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// The tensor, or a copy whose strides have the order of a dense tensor.
at::Tensor in_order(const at::Tensor& tensor, const std::vector<std::int64_t>& order) {
  if (order.empty()) return tensor.contiguous();
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse.at(order[i]) = static_cast<std::int64_t>(i);
  const at::Tensor permuted = tensor.permute(order);
  return permuted.is_contiguous() ? tensor : permuted.contiguous().permute(inverse);
}

}  // namespace

/// Autograd's node of a call.
class SegmentNode : public torch::autograd::Node {
 public:
  explicit SegmentNode(std::shared_ptr<const Segment> segment) : segment_(std::move(segment)) {}

  std::string name() const override { return "mn::compiled"; }

  /// Saves the arguments of backward. Call it when the outputs have this node.
  void save(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) {
    for (const Saved& each : segment_->form_.saved) {
      const at::Tensor& tensor = each.is_input ? inputs[each.index] : results.at(each.index);
      saved_.emplace_back(tensor, !each.is_input && each.index < segment_->form_.outputs);
    }
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    for (SavedVariable& each : saved_) each.reset_data();
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    const SegmentForm& form = segment_->form_;
    if (at::GradMode::is_enabled()) {
      throw ArgumentError("the gradients of the compiled " + form.name +
                          " can't be differentiated (create_graph): a package holds first derivatives");
    }
    const std::lock_guard lock(mutex_);  // as in libtorch's own nodes: threads may share a graph
    std::vector<at::Tensor> arguments;
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      arguments.push_back(in_order(saved_[i].unpack(shared_from_this()), form.saved[i].order));
    }
    for (std::size_t i = 0; i < form.tangents.size(); ++i) {
      const at::Tensor gradient = gradients[i].defined() ? gradients[i] : input_metadata(i).zeros_like();
      arguments.push_back(in_order(gradient, form.tangents[i].form.order));
    }
    return segment_->backward_->run(arguments);
  }

  std::shared_ptr<const Segment> segment_;
  std::vector<SavedVariable> saved_;
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
    throw ArgumentError(text.str() + ", which is not what it was compiled for");
  }
  if (!is_right) throw ArgumentError("the compiled " + form_.name + " was given a wrong number of inputs");
}

std::vector<at::Tensor> Segment::run(std::vector<at::Tensor> inputs) const {
  check(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = in_order(inputs[i], form_.inputs[i].order);
  std::vector<at::Tensor> arguments = inputs;
  if (form_.seeds > 0) {
    using Limits = std::numeric_limits<std::int64_t>;
    arguments.push_back(at::randint(Limits::min(), Limits::max(), {form_.seeds},
                                    at::TensorOptions().dtype(at::kLong).device(inputs.front().device())));
  }
  std::vector<at::Tensor> results = forward_->run(arguments);
  const auto needs_grad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (at::GradMode::is_enabled() && std::ranges::any_of(inputs, needs_grad)) record(inputs, results);
  if (results.size() < form_.outputs) throw Error("the library of " + form_.name + " has too few results");
  results.resize(form_.outputs);
  return results;
}

void Segment::record(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& results) const {
  variable_list differentiable;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (std::ranges::find(form_.gradients, i) != form_.gradients.end()) {
      differentiable.push_back(inputs[i]);
    } else if (inputs[i].requires_grad()) {
      throw ArgumentError("the compiled " + form_.name + " has no gradient of its input " + std::to_string(i) +
                          ", which requires one: compile the model with this parameter's requires_grad set");
    }
  }
  const auto node = std::shared_ptr<SegmentNode>(new SegmentNode(shared_from_this()), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(differentiable));
  for (const Tangent& tangent : form_.tangents) torch::autograd::set_history(results.at(tangent.output), node);
  node->save(inputs, results);
}

}  // namespace mn::compiled
