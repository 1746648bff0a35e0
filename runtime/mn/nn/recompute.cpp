// A segment as one autograd node, whose backward runs the segment again and backpropagates through it.
//
// (1) The node is recorded whenever gradient mode is on. Parameters inside the segment are not inputs of the node, and
//     autograd records no node without an input that requires a gradient. Therefore the node has an extra input.
// (2) The second run draws the random numbers of the first run, on the CPU and on the inputs' GPU. Afterwards the
//     generators continue as if there had been no second run.
// (3) The inner backward accumulates into the parameters' gradients.
// (4) Autograd does not see the first run. Autocast must not keep 16-bit copies of weights from it: libtorch 2.9 would
//     use these copies in the second run, and the weights would get no gradients.
#include <mn/nn/recompute.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/kept_value.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns the device whose random generator a segment may use in addition to the CPU's.
Device device_of(const std::vector<at::Tensor>& inputs) {
  const auto on_gpu = std::ranges::find_if(inputs, [](const at::Tensor& input) { return !input.is_cpu(); });
  return on_gpu == inputs.end() ? Device() : Device{DeviceType::kCuda, static_cast<int>(on_gpu->get_device())};
}

/// While a RandomScope lives, the random generators continue from `state`. The destructor restores their old state.
class RandomScope {
 public:
  RandomScope(const NamedTensors& state, Device device) : device_(device), before_(random_state(device)) {
    set_random_state(state, device);
  }
  ~RandomScope() { set_random_state(before_, device_); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  Device device_;
  NamedTensors before_;
};

/// While an UncachedAutocast lives, autocast keeps no copies (4).
class UncachedAutocast {
 public:
  UncachedAutocast() { at::autocast::set_autocast_cache_enabled(false); }
  ~UncachedAutocast() { at::autocast::set_autocast_cache_enabled(before_); }
  UncachedAutocast(const UncachedAutocast&) = delete;
  UncachedAutocast& operator=(const UncachedAutocast&) = delete;

 private:
  bool before_ = at::autocast::is_autocast_cache_enabled();
};

struct FirstRun {
  Segment segment;
  Device device;
  NamedTensors random;
  AutocastSettings autocast;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*extra input (1)*/,
                            const std::shared_ptr<FirstRun>& run, at::TensorList inputs) {
    keep_value(context, run);
    context->save_for_backward(inputs.vec());
    const UncachedAutocast uncached;
    return run->segment(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled())
      throw ArgumentError("the gradients of recompute_activations() can't be differentiated (create_graph)");
    const auto& run = kept_value<std::shared_ptr<FirstRun>>(context);
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& input : context->get_saved_variables())
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    at::Tensor output;
    {
      const RandomScope random(run->random, run->device);
      const AutocastScope autocast(run->autocast);
      const at::AutoGradMode with_gradients(true);
      output = run->segment(inputs);
    }
    begin_backward_record();
    if (output.requires_grad()) torch::autograd::backward({output}, {gradients.at(0)});
    variable_list result = {at::Tensor(), at::Tensor()};  // no gradient for the extra input and `run`
    for (const at::Tensor& input : inputs) result.push_back(input.grad());
    return result;
  }
};

}  // namespace

at::Tensor recompute_activations(Segment segment, std::vector<at::Tensor> inputs) {
  if (!segment || inputs.empty()) throw ArgumentError("recompute_activations() needs a function and an input");
  if (!at::GradMode::is_enabled()) return segment(inputs);
  const Device device = device_of(inputs);
  const auto run = std::make_shared<FirstRun>(
      FirstRun{std::move(segment), device, random_state(device), AutocastSettings::of(inputs.front().device().type())});
  const at::Tensor parameters = at::empty({0}).requires_grad_();
  return Recompute::apply(parameters, run, at::TensorList(inputs));
}

}  // namespace mn
