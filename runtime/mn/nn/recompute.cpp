// A segment as one autograd node, whose backward runs the segment again and backpropagates through it.
//
// (1) The node is recorded if gradients are wanted at all: parameters inside are not its inputs, so an input of its own
//     that requires a gradient stands for them.
// (2) Random numbers of the CPU, and of the GPU that the inputs are on, are those of the first run; afterwards the
//     generators go on as if nothing had happened.
// (3) The inner backward accumulates into the parameters' gradients as any other does.
#include <mn/nn/recompute.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The states of the generators that a segment may draw from.
class RandomStates {
 public:
  explicit RandomStates(const std::vector<at::Tensor>& inputs) {
    add(at::Device(at::kCPU));
    const auto on_gpu = std::ranges::find_if(inputs, [](const at::Tensor& input) { return !input.is_cpu(); });
    if (on_gpu != inputs.end()) add(on_gpu->device());
  }
  void restore() const {
    for (auto [generator, state] : states_) {
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  void add(at::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// Restores on leaving what the generators are at on entering.
class RandomScope {
 public:
  explicit RandomScope(const std::vector<at::Tensor>& inputs) : before_(inputs) {}
  ~RandomScope() { before_.restore(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomStates before_;
};

/// Whether autocast is on, and in which type.
struct Autocast {
  at::DeviceType device;
  bool enabled;
  at::ScalarType dtype;

  static Autocast of(at::DeviceType device) {
    return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
  }
  void set() const {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
  }
};

/// The first run's autocast while it lives.
class AutocastAgain {
 public:
  explicit AutocastAgain(const Autocast& then) : before_(Autocast::of(then.device)) {
    then.set();
    at::autocast::increment_nesting();
  }
  ~AutocastAgain() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    before_.set();
  }
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  Autocast before_;
};

/// What backward needs of the first run.
struct FirstRun {
  Segment segment;
  RandomStates random;
  Autocast autocast;
};

class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*stands for parameters*/,
                            const std::shared_ptr<FirstRun>& run, at::TensorList inputs) {
    context->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<Capsule>(run));
    context->save_for_backward(inputs.vec());
    return run->segment(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled())
      throw ArgumentError("the gradients of recompute_activations() can't be differentiated (create_graph)");
    const auto run = c10::static_intrusive_pointer_cast<Capsule>(context->saved_data["run"].toCapsule())->run;
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& input : context->get_saved_variables())
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    at::Tensor output;
    {
      const RandomScope keep(inputs);
      const AutocastAgain autocast(run->autocast);
      const at::AutoGradMode with_gradients(true);
      run->random.restore();
      output = run->segment(inputs);
    }
    begin_backward_record();
    if (output.requires_grad()) torch::autograd::backward({output}, {gradients.at(0)});
    variable_list result = {at::Tensor(), at::Tensor()};  // none for the stand-in, and for `run`
    for (const at::Tensor& input : inputs) result.push_back(input.grad());
    return result;
  }

 private:
  struct Capsule : torch::CustomClassHolder {
    explicit Capsule(std::shared_ptr<FirstRun> first) : run(std::move(first)) {}
    std::shared_ptr<FirstRun> run;
  };
};

}  // namespace

at::Tensor recompute_activations(Segment segment, std::vector<at::Tensor> inputs) {
  if (!segment || inputs.empty()) throw ArgumentError("recompute_activations() needs a function and an input");
  if (!at::GradMode::is_enabled()) return segment(inputs);
  const at::DeviceType device = inputs.front().device().type();
  const auto run = std::make_shared<FirstRun>(FirstRun{std::move(segment), RandomStates(inputs), Autocast::of(device)});
  const at::Tensor parameters = at::empty({0}).requires_grad_();
  return Recompute::apply(parameters, run, at::TensorList(inputs));
}

}  // namespace mn
