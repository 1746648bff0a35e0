#include <mn/trainer/graphed_step.hpp>

#include <span>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/ScopeExit.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/optimizers/device_update.hpp>
#include <mn/tensor/device_graph.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/parameter_check.hpp>
#include <mn/trainer/parameter_set.hpp>

namespace mn {
namespace {

constexpr std::int64_t kAlike = 4;       // after so many alike steps in a row, a step is recorded
constexpr std::int64_t kPatience = 200;  // after so many steps without a graph, a warning is logged

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
  throw UsageError("a CUDA graph can't hold this step: " + first_line_of(why) + "; train with --cuda-graph off");
}

}  // namespace

GraphedStep::GraphedStep(std::shared_ptr<MultiNodeOptimizer> optimizer, bool optional)
    : optimizer_(std::move(optimizer)),
      is_optional_(optional),
      update_(dynamic_cast<DeviceUpdate*>(optimizer_->actual_.get())) {
  if (const char* const why = why_no_graph(*optimizer_))
    throw UsageError(std::string("there can be no CUDA graph of a step (--cuda-graph on): ") + why);
  update_->stay_on_device();
}

GraphedStep::~GraphedStep() = default;

const char* GraphedStep::why_no_graph(const MultiNodeOptimizer& optimizer) {
  const Communicator& comm = *optimizer.comm_;
  const OptimizerOptions& options = optimizer.options_;
  if (comm.device().type == DeviceType::kCpu) return "the ranks compute on CPUs";
  if (!DeviceGraph::is_available(comm.device())) return "this build of mn has no CUDA";
  if (comm.debug()) return "debug mode reads the values of each call";
  if (comm.size() > 1 && optimizer.comm_->device_collectives() == nullptr)
    return "this communicator reduces gradients through the host, pure_nccl does not";
  if (options.double_buffering) return "double buffering applies the gradients of another step";
  if (optimizer.local_) return "local steps do not involve all ranks";
  if (options.compression.kind != Compression::kNone)
    return "compression keeps on the host which gradients it has sent";
  if (optimizer.shards_) return "the memory of sharded parameters and gradients moves in each step";
  if (!optimizer.experts_.empty()) return "the hosts exchange the numbers of tokens of each expert";
  if (options.loss_ranks) return "the hosts of loss_ranks add up their samples in each step";
  if (options.trace) return "a profile waits for each phase of a step";
  if (dynamic_cast<DeviceUpdate*>(optimizer.actual_.get()) == nullptr)
    return "the optimizer must be mn's FusedAdam, FusedAdamW or FusedSgd (sgd, adam, adamw)";
  if (optimizer.scaler_ && optimizer.skips_ == nullptr)
    return "the host decides whether a step with this optimizer overflowed";
  return nullptr;
}

/// Invariant 3: returns all settings that a graph holds, as numbers: the optimizer's constants, and a fingerprint of
/// parameters, hooks and states. Learning rates are left out, because they may change without a new recording.
std::vector<double> GraphedStep::settings() {
  optimizer_->follow_parameter_set();
  std::vector<double> all = update_->constants();
  all.push_back(static_cast<double>(optimizer_->adoptions_));
  for (const at::Tensor& parameter : optimizer_->set_->all()) {
    all.push_back(static_cast<double>(reinterpret_cast<std::uintptr_t>(parameter.const_data_ptr())));
  }
  return all;
}

GraphedStep::Kind GraphedStep::kind_of(const std::vector<at::Tensor>& inputs, const std::vector<double>& numbers) {
  Kind kind{{}, numbers};
  for (const at::Tensor& input : inputs) {
    if (input.device() != c10::Device(optimizer_->communicator()->device()))
      fail("an input is on " + input.device().str() + ", not on the GPU that trains");
    kind.shapes.push_back(static_cast<std::int64_t>(input.scalar_type()));
    kind.shapes.push_back(input.dim());
    kind.shapes.insert(kind.shapes.end(), input.sizes().begin(), input.sizes().end());
    kind.shapes.insert(kind.shapes.end(), input.strides().begin(), input.strides().end());
  }
  const std::vector<double> numbers_of_optimizer = settings();
  kind.numbers.insert(kind.numbers.end(), numbers_of_optimizer.begin(), numbers_of_optimizer.end());
  return kind;
}

/// Collective. Invariant 1: all ranks choose the same way for the step, namely to run, record or launch it.
GraphedStep::Way GraphedStep::agree(const Kind& kind) {
  if (is_optional_ && !graph_ && steps_ >= kPatience) return Way::kWithoutGraph;  // on all ranks, so no message
  Communicator& comm = *optimizer_->communicator();
  Way way = Way::kWithoutGraph;
  if (graph_ && kind == recorded_) {
    way = Way::kLaunch;
  } else if (alike_ >= kAlike && kind == last_ && optimizer_->reduction_->is_settled() &&
             (!is_optional_ || DeviceGraph::has_room(comm.device()))) {
    way = Way::kRecord;
  }
  // The ways ascend, so the minimum is launching or recording only if every rank can.
  auto least = static_cast<std::int64_t>(way);
  if (comm.size() > 1) comm.allreduce(std::span(&least, 1), ReduceOp::kMin);
  return static_cast<Way>(least);
}

void GraphedStep::note(const Kind& kind) {
  alike_ = kind == last_ ? alike_ + 1 : 1;
  last_ = kind;
  if (++steps_ == kPatience && !graph_ && !is_optional_ && optimizer_->communicator()->rank() == 0) {
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
  has_launched_ = way != Way::kWithoutGraph;
  if (!has_launched_) return step(inputs);
  if (way == Way::kRecord) {
    record(inputs, step);
    recorded_ = kind;
  } else {
    const at::NoGradGuard no_grad;
    // The graph reads its inputs at fixed addresses, so the new inputs are copied to these addresses.
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
  }
  launch(way == Way::kRecord);  // a recording computes nothing, so the graph is launched, too
  return copies(results_);      // copies, because the next launch overwrites results_
}

/// `is_first` is true directly after the recording, which has already counted the update and the bytes sent.
void GraphedStep::launch(bool is_first) {
  update_->show_rates(optimizer_->param_groups());
  graph_->launch();
  if (optimizer_->comm_->size() > 1) optimizer_->reduction_->watch_graph();
  if (!is_first) {
    update_->count_replay();
    optimizer_->earlier_bytes_ += bytes_;
  }
  if (optimizer_->scaler_) optimizer_->watch_overflows();
  optimizer_->check_->after_update(optimizer_->set_->all(), *optimizer_->comm_);
}

void GraphedStep::record(const std::vector<at::Tensor>& inputs, const Step& step) {
  // The old graph is deleted first, so that the new graph can use its memory.
  graph_.reset();
  results_.clear();
  inputs_ = copies(inputs);
  const std::uint64_t bytes_before = optimizer_->bytes_sent();
  // Invariant 4: every launch would repeat random numbers that `step` has drawn on the host.
  const at::Tensor random_before = host_random_state();
  record_work(step);
  if (!host_random_state().equal(random_before)) fail("it draws random numbers on the host");
  bytes_ = optimizer_->bytes_sent() - bytes_before;
  if (optimizer_->communicator()->rank() == 0) log_debug("a CUDA graph holds the training step from now on");
}

void GraphedStep::record_work(const Step& step) {
  update_->show_rates(optimizer_->param_groups());
  is_recording_ = optimizer_->is_recording_ = true;
  const auto at_the_end = c10::make_scope_exit([this] {  // runs even if the step throws
    is_recording_ = optimizer_->is_recording_ = false;
    update_->keep_captured();
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
