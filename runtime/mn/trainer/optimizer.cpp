#include <mn/trainer/optimizer.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/trace.hpp>
#include <mn/gradients/create_gradient_reduction.hpp>
#include <mn/gradients/step_weights.hpp>
#include <mn/optimizers/device_update.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>
#include <mn/trainer/local_sgd.hpp>
#include <mn/trainer/parameter_check.hpp>
#include <mn/trainer/parameter_set.hpp>
#include <mn/trainer/phase_end.hpp>
#include <mn/trainer/step_faults.hpp>

namespace mn {

MultiNodeOptimizer::MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual,
                                       std::shared_ptr<Communicator> comm, const OptimizerOptions& options)
    : actual_(std::move(actual)),
      comm_(std::move(comm)),
      options_(options),
      faults_(std::make_unique<StepFaults>()),
      weights_(std::make_unique<StepWeights>(comm_, options_.loss_ranks)) {
  if (!actual_ || !comm_) throw ArgumentError("create_multi_node_optimizer needs an optimizer and a communicator");
  // These checks come before the first collective call. Options are equal on all ranks, so either all ranks throw or
  // none throws.
  check_options(options_);
  const auto* const masters = dynamic_cast<const MasterWeights*>(actual_.get());
  if (masters != nullptr && masters->keeps_masters() && options_.local_steps > 1) {
    throw UsageError(
        "float32 masters (--precision bf16-parameters) and local steps (--local-steps) exclude each other: the ranks "
        "would average rounded weights");
  }
  weights_->check_loss_ranks();
  if (options_.shard.what != Shard::kNone) {
    weights_->agree_at_first_loss([this] {
      if (shards_) shards_->join();
    });
  }
  if (options_.grad_scaler) scaler_ = std::make_unique<GradScaler>(*options_.grad_scaler);
  keep_overflows_on_device();
  check_ = std::make_unique<ParameterCheck>(options_.check_parameters, *actual_);
  // On a GPU, the device measures how long it waits for communication. With a trace, the host waits for the device in
  // each phase, and can measure the time itself.
  if (comm_->device().type != DeviceType::kCpu && !options_.trace) {
    waits_ = std::make_unique<DeviceTimer>(comm_->device());
  }
  set_ = std::make_unique<ParameterSet>(*actual_);
  set_->remove_repeats();
  adopt(set_->listed());
  let_random_numbers_differ(*comm_);
}

MultiNodeOptimizer::~MultiNodeOptimizer() = default;

/// Lets the device decide which steps to leave out because of an overflow, so that the host need not wait. Three
/// exceptions: with offload the host updates the parameters; with compression the host must decide, because residuals
/// are kept only for steps that are made; and some optimizers have kernels that cannot leave out a step.
void MultiNodeOptimizer::keep_overflows_on_device() {
  if (!scaler_ || comm_->device().type == DeviceType::kCpu || options_.shard.offload) return;
  if (options_.compression.kind != Compression::kNone) return;
  auto* const skips = dynamic_cast<DeviceUpdate*>(actual_.get());
  if (skips == nullptr || !skips->can_skip()) return;
  skips_ = skips;
  scaler_->stay_on(c10::Device(comm_->device()));
}

void MultiNodeOptimizer::zero_grad() {
  // A parameter that has left the groups keeps its gradient, because it may belong to another optimizer now.
  std::vector<std::pair<at::Tensor, at::Tensor>> left;
  const bool set_changes = !set_->is_current();
  if (set_changes) {
    const std::vector<at::Tensor> listed = set_->listed();
    for (const at::Tensor& p : reduction_->parameters()) {
      if (!index_in(listed, p)) left.emplace_back(p, std::exchange(p.mutable_grad(), {}));
    }
  }
  if (shards_) shards_->end_pass(ShardedParameters::PassOf::kStep);
  reduction_->clear();  // first, because ranks whose set does not change may make new buffers in this call
  for (const auto& [parameter, gradient] : left) parameter.mutable_grad() = gradient;
  if (set_changes) {
    change_set(/*before_step=*/true);
    reduction_->clear();
  } else {
    check_alone();
  }
  for (const auto& parameter : set_->frozen()) parameter.mutable_grad().reset();
  for (const at::Tensor& piece : experts_) piece.mutable_grad().reset();
  if (shards_) {
    for (const at::Tensor& piece : shards_->pieces()) piece.mutable_grad().reset();
    shards_->begin_pass(ShardedParameters::PassOf::kStep);
  }
  reduced_.reset();
  if (!options_.double_buffering) faults_->forget();  // zero_grad() drops the gradients that caused the fault
  weights_->forget();
  end_backward_record();
}

void MultiNodeOptimizer::announce_step(double samples) {
  // If the set of parameters has changed, step() must first tell the reduction, so nothing can be announced now.
  if (samples <= 0 || !set_->is_current() || reduction_->gradients().set_changes()) return;
  reduction_->announce([this, samples] { return weights_->ahead(samples, reduction_->gradients().watch()); });
}

void MultiNodeOptimizer::scale_gradients(double factor) {
  reduction_->scale(factor);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& piece : experts_) {
    if (piece.grad().defined()) piece.mutable_grad().mul_(exact_factor(factor));
  }
}

void MultiNodeOptimizer::step() { step_weighted(*weight_of({})); }

void MultiNodeOptimizer::step(double samples) {
  if (const auto weight = weight_of(samples)) step_weighted(*weight);
}

/// Runs `work`, and adds its time to the time that this rank has waited for communication.
void MultiNodeOptimizer::wait(const char* what, const std::function<void()>& work) {
  const Trace::Scope scope(options_.trace.get(), what, Trace::Lane::kCompute);
  const auto begin = Trace::Clock::now();
  if (waits_ && !is_recording_) waits_->begin();
  work();
  if (waits_) waits_->end();
  end_phase(options_.trace.get(), comm_->device());
  if (options_.trace) reduction_->averager().traced().settle(comm_->device());
  communication_s_ += std::chrono::duration<double>(Trace::Clock::now() - begin).count();
}

void MultiNodeOptimizer::step_weighted(const StepWeight& weight) {
  reduce_weighted(weight);
  const Reduced reduced = *std::exchange(reduced_, std::nullopt);
  weights_->forget();
  if (skips_ != nullptr) skips_->skip_if(scaler_->has_overflow());
  if (reduced.has_mean && reduced.finite) update();
  // All ranks see the same reduced gradients, so they leave out the same steps, and their scales stay equal.
  if (scaler_ && reduced.has_mean) {
    scaler_->update(reduced.finite);
    reduction_->averager().set_scale(scaler_->scale());
    if (!is_recording_) watch_overflows();
  }
  if (local_) average([&] { return local_->step(reduced.weight); });
  leave_sparse_outside();
}

void MultiNodeOptimizer::update() {
  const Trace::Scope scope(options_.trace.get(), "update", Trace::Lane::kCompute);
  for (const auto& [name, hook] : hooks_) hook(trained_parameters());
  actual_->step();
  if (shards_) shards_->publish();
  end_phase(options_.trace.get(), comm_->device());
  if (local_ || is_recording_) return;
  if (!shards_) check_->after_update(set_->all(), *comm_);
  if (Communicator* const replicas = shards_ ? shards_->ranks().replicas.get() : nullptr) {
    check_->after_update(shards_->pieces(), *comm_, replicas);
  }
}

/// With double buffering: updates the parameters by the mean gradient of the previous step.
void MultiNodeOptimizer::apply_pending() {
  ReductionResult result;
  wait("wait for gradients", [&] { result = reduction_->flush(); });
  throw_faults(result, *group());
  if (take_pending() || result.has_mean) update();
}

/// If leave_sparse_outside() has kept a mean of gradients, makes it the parameters' gradients. Returns false if it has
/// kept none.
bool MultiNodeOptimizer::take_pending() {
  if (!pending_) return false;
  for (std::size_t i = 0; i < pending_->size(); ++i) reduction_->parameters()[i].mutable_grad() = (*pending_)[i];
  pending_.reset();
  return true;
}

/// Runs `average_parameters`. If the result says that a rank has a fault, all ranks throw.
void MultiNodeOptimizer::average(const std::function<ReductionResult()>& average_parameters) {
  ReductionResult result;
  wait("wait for parameters", [&] { result = average_parameters(); });
  throw_faults(result, *comm_);
}

void MultiNodeOptimizer::synchronize() {
  apply_pending();
  wait("wait for gradients", [&] { reduction_->finish(); });
  if (const auto changed = reduction_->gradients().watch().changed_earlier()) throw UsageError(change_of(*changed));
  if (skips_ != nullptr) skips_->settle();
  if (local_) average([&] { return local_->synchronize(); });
}

void MultiNodeOptimizer::average_statistics(const torch::nn::Module& model) {
  buffers_ = averaged_buffers(model);
  if (local_) local_->average_also(buffers_);
}

double MultiNodeOptimizer::communication_s() const { return waits_ ? waits_->seconds() : communication_s_; }

std::uint64_t MultiNodeOptimizer::bytes_sent() const noexcept {
  return earlier_bytes_ + (reduction_ ? reduction_->bytes_sent() : 0) + (local_ ? local_->bytes_sent() : 0) +
         (shards_ ? shards_->bytes_gathered() : 0);
}

std::shared_ptr<void> MultiNodeOptimizer::no_sync() {
  // All callers of no_sync() share one token. As soon as nobody holds the token, backward passes send gradients again.
  auto token = no_sync_.lock();
  if (!token) token = std::make_shared<char>();
  no_sync_ = token;
  reduction_->pause_while(token);
  return token;
}

std::vector<at::Tensor> MultiNodeOptimizer::trained_parameters() const {
  if (!shards_) {
    std::vector<at::Tensor> trained = set_->trained();
    std::ranges::copy_if(experts_, std::back_inserter(trained), &at::Tensor::requires_grad);
    return trained;
  }
  std::vector<at::Tensor> pieces;
  for (std::size_t i = 0; i < shards_->parameters().size(); ++i) {
    if (shards_->parameters()[i].requires_grad()) pieces.push_back(shards_->pieces()[i]);
  }
  return pieces;
}

void MultiNodeOptimizer::add_hook(const std::string& name, GradientHook hook, bool first) {
  const bool taken = std::any_of(hooks_.begin(), hooks_.end(), [&](const auto& other) { return other.first == name; });
  if (taken)
    throw ArgumentError("the optimizer has a hook named \"" + name + "\" already: remove it or choose another name");
  hooks_.emplace(first ? hooks_.begin() : hooks_.end(), name, std::move(hook));
  ++adoptions_;  // makes a new recording necessary: a CUDA graph holds the old hooks
}

void MultiNodeOptimizer::remove_hook(const std::string& name) {
  const auto removed = std::erase_if(hooks_, [&](const auto& hook) { return hook.first == name; });
  if (removed == 0) throw ArgumentError("the optimizer has no hook named \"" + name + "\"");
  ++adoptions_;
}

nlohmann::json MultiNodeOptimizer::state() const {
  nlohmann::json state = {{"unit", weights_->unit()}};
  if (scaler_) state["grad_scaler"] = scaler_->state();
  return state;
}

void MultiNodeOptimizer::load_state(const nlohmann::json& state) {
  ++adoptions_;
  weights_->set_unit(state.at("unit").get<double>());
  if (scaler_ && state.contains("grad_scaler")) scaler_->load_state(state.at("grad_scaler"));
  if (scaler_) reduction_->averager().set_scale(scaler_->scale());
  if (local_) local_->restart();
}

std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(std::unique_ptr<torch::optim::Optimizer> actual,
                                                                std::shared_ptr<Communicator> comm,
                                                                const OptimizerOptions& options) {
  return std::make_unique<MultiNodeOptimizer>(std::move(actual), std::move(comm), options);
}

}  // namespace mn
