#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/gradients/gradient_reduction.hpp>
#include <mn/train/local_sgd.hpp>
#include <mn/train/optimizer.hpp>
#include <mn/train/trace.hpp>

namespace mn {

MultiNodeOptimizer::MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual,
                                       std::shared_ptr<Communicator> comm, const OptimizerOptions& options)
    : actual_(std::move(actual)), comm_(std::move(comm)), options_(options) {
  if (!actual_ || !comm_) throw ArgumentError("create_multi_node_optimizer needs an optimizer and a communicator");
  check_options(options_);
  adopt(parameters());
}

MultiNodeOptimizer::~MultiNodeOptimizer() = default;

std::vector<at::Tensor> MultiNodeOptimizer::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& group : actual_->param_groups()) {
    all.insert(all.end(), group.params().begin(), group.params().end());
  }
  return all;
}

void MultiNodeOptimizer::adopt(std::vector<at::Tensor> parameters) {
  earlier_bytes_ = bytes_sent();
  local_.reset();
  comm_->broadcast_data(parameters);
  known_ = parameters;
  parameters = differentiable(std::move(parameters));
  reduction_.reset();  // removes its hooks and views before the next one sets its own
  if (options_.local_steps > 1) {
    local_ =
        std::make_unique<LocalSgd>(parameters, comm_, options_.local_steps, options_.outer_momentum, options_.trace);
    local_->average_also(buffers_);
  }
  // With local SGD each rank reduces its gradients alone.
  const auto group = local_ ? std::shared_ptr<Communicator>(comm_->split(comm_->rank(), 0)) : comm_;
  reduction_ = create_gradient_reduction(std::move(parameters), group, options_);
  reduction_->pause_while(no_sync_);
}

void MultiNodeOptimizer::follow_parameter_set() {
  std::vector<at::Tensor> now = parameters();
  const bool same = std::equal(now.begin(), now.end(), known_.begin(), known_.end(),
                               [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
  if (same) return;
  known_.clear();  // if the new set can't be adopted, the next call tries again
  // Gradients that no step has used stay; those that are under way are applied.
  reduction_->release();
  const std::vector<at::Tensor> trained = differentiable(now);
  std::vector<at::Tensor> unused;
  for (const auto& parameter : trained) unused.push_back(std::exchange(parameter.mutable_grad(), {}));
  synchronize();
  for (std::size_t i = 0; i < trained.size(); ++i) trained[i].mutable_grad() = unused[i];
  adopt(std::move(now));
}

void MultiNodeOptimizer::zero_grad() {
  follow_parameter_set();
  reduction_->clear();
}

void MultiNodeOptimizer::announce_step(std::int64_t samples) {
  if (samples > 0 && samples == nominal_samples_) reduction_->announce();
}

void MultiNodeOptimizer::step() { step_weighted(1.0); }

void MultiNodeOptimizer::step(std::int64_t samples) {
  if (samples < 0) throw ArgumentError("the samples of a step must be at least 0, got " + std::to_string(samples));
  if (nominal_samples_ == 0) {
    std::int64_t most = samples;
    comm_->allreduce(std::span(&most, 1), ReduceOp::kMax);
    nominal_samples_ = most;
  }
  if (nominal_samples_ == 0) return;  // no rank has ever had a sample
  step_weighted(static_cast<double>(samples) / static_cast<double>(nominal_samples_));
}

/// Runs work that waits for communication, and counts its time as exposed communication.
void MultiNodeOptimizer::wait(const char* what, const std::function<void()>& work) {
  const Trace::Scope scope(options_.trace.get(), what, Trace::Lane::kCompute);
  const auto begin = Trace::Clock::now();
  work();
  communication_s_ += std::chrono::duration<double>(Trace::Clock::now() - begin).count();
}

void MultiNodeOptimizer::step_weighted(double weight) {
  follow_parameter_set();
  bool any = false;
  wait("wait for gradients", [&] { any = reduction_->reduce(weight); });
  if (any) update();
  if (local_) wait("wait for parameters", [&] { local_->step(weight); });
}

void MultiNodeOptimizer::update() {
  const Trace::Scope scope(options_.trace.get(), "update", Trace::Lane::kCompute);
  for (const auto& [name, hook] : hooks_) hook(reduction_->parameters());
  actual_->step();
}

void MultiNodeOptimizer::synchronize() {
  bool any = false;
  wait("wait for gradients", [&] { any = reduction_->flush(); });
  if (any) update();
  if (local_) wait("wait for parameters", [&] { local_->synchronize(); });
}

void MultiNodeOptimizer::average_also(const std::vector<at::Tensor>& buffers) {
  buffers_ = buffers;
  if (local_) local_->average_also(buffers_);
}

std::uint64_t MultiNodeOptimizer::bytes_sent() const noexcept {
  return earlier_bytes_ + (reduction_ ? reduction_->averager().bytes_sent() : 0) + (local_ ? local_->bytes_sent() : 0);
}

std::shared_ptr<void> MultiNodeOptimizer::no_sync() {
  auto token = no_sync_.lock();
  if (!token) token = std::make_shared<char>();
  no_sync_ = token;
  reduction_->pause_while(token);
  return token;
}

void MultiNodeOptimizer::add_hook(const std::string& name, GradientHook hook) {
  const bool taken = std::any_of(hooks_.begin(), hooks_.end(), [&](const auto& other) { return other.first == name; });
  if (taken)
    throw ArgumentError("the optimizer has a hook named \"" + name + "\" already: remove it or choose another name");
  hooks_.emplace_back(name, std::move(hook));
}

void MultiNodeOptimizer::remove_hook(const std::string& name) {
  const auto removed = std::erase_if(hooks_, [&](const auto& hook) { return hook.first == name; });
  if (removed == 0) throw ArgumentError("the optimizer has no hook named \"" + name + "\"");
}

nlohmann::json MultiNodeOptimizer::state() const { return {{"nominal_samples", nominal_samples_}}; }

void MultiNodeOptimizer::load_state(const nlohmann::json& state) {
  nominal_samples_ = state.at("nominal_samples").get<std::int64_t>();
  if (local_) local_->restart();
}

NamedTensors MultiNodeOptimizer::rank_state() const {
  return local_ ? local_->state() : reduction_->averager().state();
}

void MultiNodeOptimizer::load_rank_state(const NamedTensors& state) {
  if (local_) {
    local_->load_state(state);
  } else {
    reduction_->averager().load_state(state);
  }
}

std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(std::unique_ptr<torch::optim::Optimizer> actual,
                                                                std::shared_ptr<Communicator> comm,
                                                                const OptimizerOptions& options) {
  return std::make_unique<MultiNodeOptimizer>(std::move(actual), std::move(comm), options);
}

GradientHook weight_decay(double rate) {
  return [rate](const std::vector<at::Tensor>& parameters) {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : parameters) {
      if (parameter.grad().defined()) parameter.mutable_grad().add_(parameter, rate);
    }
  };
}

GradientHook gradient_clipping(double threshold) {
  return [threshold](const std::vector<at::Tensor>& parameters) {
    const at::NoGradGuard no_grad;
    double sum_of_squares = 0;
    for (const auto& parameter : parameters) {
      if (!parameter.grad().defined()) continue;
      const double norm = parameter.grad().norm().item<double>();
      sum_of_squares += norm * norm;
    }
    const double rate = threshold / std::sqrt(sum_of_squares);
    if (!(rate < 1)) return;
    for (const auto& parameter : parameters) {
      if (parameter.grad().defined()) parameter.mutable_grad().mul_(rate);
    }
  };
}

}  // namespace mn
