#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/ScopeExit.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/device_graph.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/graphed_step.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

constexpr std::int64_t kAlike = 4;       // steps in a row, before one is recorded
constexpr std::int64_t kPatience = 200;  // steps, before a warning

at::Tensor host_random_state() {
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU));
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach().clone());
  return all;
}

[[noreturn]] void fail(const std::string& why) {
  throw UsageError("a CUDA graph can't hold this step: " + why.substr(0, why.find('\n')) +
                   "; train without --cuda-graph");
}

}  // namespace

GraphedStep::GraphedStep(std::shared_ptr<MultiNodeOptimizer> optimizer) : optimizer_(std::move(optimizer)) {
  optimizer_->stay_on_device();
}

GraphedStep::~GraphedStep() = default;

GraphedStep::Kind GraphedStep::kind_of(const std::vector<at::Tensor>& inputs,
                                       const std::vector<double>& numbers) const {
  Kind kind{{}, numbers};
  for (const at::Tensor& input : inputs) {
    if (input.device() != c10::Device(optimizer_->communicator()->device()))
      fail("an input is on " + input.device().str() + ", not on the GPU that trains");
    kind.shapes.push_back(static_cast<std::int64_t>(input.scalar_type()));
    kind.shapes.push_back(input.dim());
    kind.shapes.insert(kind.shapes.end(), input.sizes().begin(), input.sizes().end());
    kind.shapes.insert(kind.shapes.end(), input.strides().begin(), input.strides().end());
  }
  // (3): settings that are numbers in the graph; rates lie on the device.
  const std::vector<double> settings = optimizer_->graph_constants();
  kind.numbers.insert(kind.numbers.end(), settings.begin(), settings.end());
  return kind;
}

/// (1): what every rank can do.
GraphedStep::Way GraphedStep::agree(const Kind& kind) {
  Way way = Way::kAsItIs;
  if (graph_ && kind == recorded_) {
    way = Way::kLaunch;
  } else if (alike_ >= kAlike && kind == last_ && optimizer_->is_settled()) {
    way = Way::kRecord;
  }
  // Ways are ordered: a step that one rank makes as it is, or must record, all make so.
  auto least = static_cast<std::int64_t>(way);
  Communicator& comm = *optimizer_->communicator();
  if (comm.size() > 1) comm.allreduce(std::span(&least, 1), ReduceOp::kMin);
  return static_cast<Way>(least);
}

void GraphedStep::note(const Kind& kind) {
  alike_ = kind == last_ ? alike_ + 1 : 1;
  last_ = kind;
  if (++steps_ == kPatience && !graph_ && optimizer_->communicator()->rank() == 0) {
    log_warning("after " + std::to_string(steps_) +
                " steps there is no CUDA graph: minibatches differ in shape or in samples, or the optimizer in its "
                "settings, from step to step");
  }
}

std::vector<at::Tensor> GraphedStep::run(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers,
                                         const Step& step) {
  const Kind kind = kind_of(inputs, numbers);
  const Way way = agree(kind);
  note(kind);
  has_launched_ = way != Way::kAsItIs;
  if (!has_launched_) return step(inputs);
  if (way == Way::kRecord) {
    record(inputs, step);
    recorded_ = kind;
  } else {
    const at::NoGradGuard no_grad;
    // The graph reads at the addresses that it was recorded with.
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
  }
  // Recording computed nothing, so the recorded step is launched, too. It counted its bytes already.
  optimizer_->launch(*graph_, way == Way::kRecord ? 0 : bytes_);
  return copies(results_);  // the next launch overwrites the graph's own
}

void GraphedStep::record(const std::vector<at::Tensor>& inputs, const Step& step) {
  // The graph before and its results give their memory back first.
  graph_.reset();
  results_.clear();
  inputs_ = copies(inputs);
  const std::uint64_t bytes_before = optimizer_->bytes_sent();
  // (4): numbers drawn on the host would be the same in every launch.
  const at::Tensor random_before = host_random_state();
  record_work(step);
  if (!host_random_state().equal(random_before)) fail("it draws random numbers on the host");
  bytes_ = optimizer_->bytes_sent() - bytes_before;
  if (optimizer_->communicator()->rank() == 0) log_debug("a CUDA graph holds the training step from now on");
}

void GraphedStep::record_work(const Step& step) {
  optimizer_->begin_recording();
  is_recording_ = true;
  const auto at_the_end = c10::make_scope_exit([this] {  // also where the step throws
    is_recording_ = false;
    optimizer_->end_recording();
  });
  try {
    graph_ = std::make_unique<DeviceGraph>(optimizer_->communicator()->device(), [&] { results_ = step(inputs_); });
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const CommError& error) {
    fail(error.what());
  }
}

}  // namespace mn
