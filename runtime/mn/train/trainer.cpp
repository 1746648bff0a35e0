#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/on_root.hpp>
#include <mn/train/signals.hpp>
#include <mn/train/trainer.hpp>

namespace mn {
namespace {

constexpr double kAgreementPeriod = 0.1;  // s; what clocks and signals decide may come so much later
constexpr std::size_t kMostPendingLosses = 1000;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void wait_for_device(at::Device device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

class FunctionExtension final : public Extension {
 public:
  FunctionExtension(std::string name, std::function<void(Trainer&)> function)
      : name_(std::move(name)), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  void run(Trainer& trainer) override { function_(trainer); }

 private:
  std::string name_;
  std::function<void(Trainer&)> function_;
};

}  // namespace

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::shared_ptr<MultiNodeOptimizer> optimizer,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
                 TrainerOptions options)
    : comm_(std::move(comm)),
      optimizer_(std::move(optimizer)),
      iterator_(std::move(iterator)),
      model_(std::move(model)),
      compute_loss_(std::move(compute_loss)),
      options_(std::move(options)) {
  if (!comm_ || !optimizer_ || !iterator_ || !model_ || !compute_loss_) {
    throw ArgumentError("a Trainer needs a communicator, an optimizer, an iterator, a model and a loss function");
  }
  if (options_.epochs < 0 || options_.iterations < 0 || options_.epochs + options_.iterations == 0) {
    throw UsageError("training has no end: the number of epochs or of iterations must be at least 1");
  }
  prepare_out();
  name_tensors(*model_);
  comm_->broadcast_data(*model_);  // what the optimizer does not hold, too
  optimizer_->average_also(buffers_of(*model_));
}

void Trainer::prepare_out() const {
  const auto prepare = [this] {
    const std::string advice = ": choose another output folder (--out)";
    try {
      std::filesystem::create_directories(options_.out);
      AtomicFile probe(options_.out / "probe");  // never committed
    } catch (const std::exception& error) {
      throw UsageError("the output folder " + options_.out.string() + " can't be written (" + error.what() + ")" +
                       advice);
    }
  };
  on_root<UsageError>(*comm_, prepare);
}

void Trainer::add(std::unique_ptr<Extension> extension, ExtendOptions options) {
  const std::string name = options.name.empty() ? extension->name() : options.name;
  const int priority = options.priority.value_or(extension->priority());
  const Interval trigger = options.trigger.value_or(extension->trigger());
  for (const Entry& entry : extensions_) {
    if (entry.name == name) {
      throw ArgumentError("the trainer has an extension named \"" + name + "\" already: give another name");
    }
  }
  const auto after = std::find_if(extensions_.begin(), extensions_.end(),
                                  [&](const Entry& entry) { return entry.priority < priority; });
  extensions_.insert(after, {name, std::move(extension), trigger, priority, 0, false});
}

void Trainer::extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function) {
  add(std::make_unique<FunctionExtension>(name, std::move(function)), {.trigger = trigger});
}

int Trainer::run() {
  const SignalFlag signal(options_.checkpoint_on_signal);
  begin();
  bool requeue = false;
  while (!finished() && !requeue) {
    advance();
    requeue = agree(signal.raised());
    run_extensions();
  }
  optimizer_->synchronize();
  requeue = requeue && !finished();
  if (requeue) {
    const std::filesystem::path path = checkpoint_path(out(), iteration_);
    save(path);
    if (is_root()) log_info("a signal asked for the end: checkpointed in " + path.string() + ", requeue the job");
  }
  for (Entry& entry : extensions_) entry.extension->finalize(*this);
  comm_->barrier();  // what rank 0 wrote is there for all
  return requeue ? kExitRequeue : 0;
}

void Trainer::begin() {
  start_ = Clock::now();
  reported_iteration_ = iteration_;
  reported_bytes_ = optimizer_->bytes_sent();
  set_training(*model_, true);
  must_agree_ = options_.checkpoint_on_signal;
  for (Entry& entry : extensions_) {
    if (restored_.contains(entry.name)) {
      read_json("the checkpoint's state of " + entry.name,
                [&] { entry.extension->load_state(restored_.at(entry.name)); });
    }
    entry.last_run_s = elapsed_s();
    must_agree_ = must_agree_ || entry.trigger.unit == IntervalUnit::kSecond;
  }
  for (Entry& entry : extensions_) entry.extension->initialize(*this);
  last_agreement_ = next_agreement_ = iteration_;
  last_agreement_at_ = Clock::now();
}

Batch Trainer::next_batch() {
  const Trace::Scope scope(options_.trace.get(), "wait for data", Trace::Lane::kData);
  std::optional<Batch> batch = iterator_->next();
  if (!batch) {
    throw DataError("epoch " + std::to_string(epoch_ + 1) + " of training has no minibatch left after " +
                        std::to_string(epoch_detail_) + " epochs: the data set is empty or shorter than it says",
                    true);
  }
  return *std::move(batch);
}

void Trainer::advance() {
  const auto begin = Clock::now();
  const double waited_before = optimizer_->communication_s();
  const std::uint64_t bytes_before = optimizer_->bytes_sent();
  const Batch batch = next_batch();
  last_step_.data_s = seconds_since(begin);
  train_on(batch);
  ++iteration_;
  previous_epoch_detail_ = epoch_detail_;
  epoch_detail_ = iterator_->epoch_detail();
  if (epoch_detail_ >= static_cast<double>(epoch_ + 1)) end_epoch();
  const double step_s = seconds_since(begin);
  last_step_.communication_s = optimizer_->communication_s() - waited_before;
  last_step_.compute_s = step_s - last_step_.data_s - last_step_.communication_s;
  last_step_.bytes = optimizer_->bytes_sent() - bytes_before;
  training_s_ += step_s;
}

void Trainer::end_epoch() {
  ++epoch_;
  if (iterator_->next()) throw Error("the training iterator goes on after the end of epoch " + std::to_string(epoch_));
  optimizer_->synchronize();
}

void Trainer::train_on(const Batch& batch) {
  Trace* const trace = options_.trace.get();
  optimizer_->zero_grad();
  if (batch.samples > 0) {
    const at::Tensor loss = forward(batch);
    const Trace::Scope scope(trace, "backward", Trace::Lane::kCompute);
    optimizer_->announce_step(batch.samples);
    loss.backward();
    if (trace != nullptr) wait_for_device(comm_->device());
    losses_.push_back(loss.detach());
    losses_samples_.push_back(batch.samples);
  }
  optimizer_->step(batch.samples);
  samples_ += batch.samples;
  if (losses_.size() == kMostPendingLosses) synchronize();
}

at::Tensor Trainer::forward(const Batch& batch) {
  const Trace::Scope scope(options_.trace.get(), "forward", Trace::Lane::kCompute);
  Summary metrics;
  at::Tensor loss = compute_loss_(batch, metrics);
  if (!loss.defined() || loss.numel() != 1)
    throw ArgumentError("the loss function must return a tensor of one element");
  for (Entry& entry : extensions_) entry.extension->after_forward(*this, loss);
  observation_.merge(metrics, "main/");
  return loss;
}

void Trainer::synchronize() {
  if (losses_.empty()) return;
  const auto begin = Clock::now();
  std::vector<at::Tensor> flat;
  for (const at::Tensor& loss : losses_) flat.push_back(loss.reshape({}));
  const at::Tensor values = at::stack(flat).to(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const auto weight = static_cast<double>(losses_samples_[i]);
    observation_.add("main/loss", values[static_cast<std::int64_t>(i)].item<double>(), weight);
  }
  losses_.clear();
  losses_samples_.clear();
  training_s_ += seconds_since(begin);
}

/// Ranks exchange what only one of them knows: a signal, and which periods of seconds are over by rank 0's clock. Not
/// in every iteration: rank 0 also says when next. True if training is to stop.
bool Trainer::agree(bool signalled) {
  if (!must_agree_ || iteration_ < next_agreement_) return false;
  std::vector<std::int64_t> message = {signalled ? 1 : 0, 0};
  if (is_root()) {
    const auto steps = static_cast<double>(std::max<std::int64_t>(iteration_ - last_agreement_, 1));
    const double step_s = std::max(seconds_since(last_agreement_at_) / steps, 1e-9);
    message[1] = static_cast<std::int64_t>(std::clamp(kAgreementPeriod / step_s, 1.0, 2 * steps));
  }
  for (const Entry& entry : extensions_) {
    if (entry.trigger.unit != IntervalUnit::kSecond) continue;
    message.push_back(is_root() && elapsed_s() - entry.last_run_s >= entry.trigger.every ? 1 : 0);
  }
  comm_->allreduce(message, ReduceOp::kMax);
  std::size_t next = 2;
  for (Entry& entry : extensions_) {
    if (entry.trigger.unit == IntervalUnit::kSecond) entry.due = message[next++] != 0;
  }
  last_agreement_ = iteration_;
  last_agreement_at_ = Clock::now();
  next_agreement_ = iteration_ + message[1];
  return message[0] != 0;
}

bool Trainer::fires(Entry& entry) const {
  switch (entry.trigger.unit) {
    case IntervalUnit::kEpoch:
      return entry.trigger.passed(previous_epoch_detail_, epoch_detail_);
    case IntervalUnit::kIteration:
      return entry.trigger.passed(static_cast<double>(iteration_ - 1), static_cast<double>(iteration_));
    case IntervalUnit::kSecond:
      return std::exchange(entry.due, false);
  }
  return false;
}

void Trainer::run_extensions() {
  for (Entry& entry : extensions_) {
    if (!fires(entry)) continue;
    entry.extension->run(*this);
    entry.last_run_s = elapsed_s();
  }
}

bool Trainer::finished() const noexcept {
  return (options_.epochs > 0 && epoch_ >= options_.epochs) ||
         (options_.iterations > 0 && iteration_ >= options_.iterations);
}

Metrics Trainer::take_observation() {
  synchronize();
  Metrics metrics = observation_.mean_over_ranks(*comm_);
  metrics.merge(reported_);
  std::int64_t samples = samples_;
  comm_->allreduce(std::span(&samples, 1));
  metrics["images_per_second"] = training_s_ > 0 ? static_cast<double>(samples) / training_s_ : 0;
  const auto steps = static_cast<double>(std::max<std::int64_t>(iteration_ - reported_iteration_, 1));
  metrics["bytes_per_step"] = static_cast<double>(optimizer_->bytes_sent() - reported_bytes_) / steps;
  reported_iteration_ = iteration_;
  reported_bytes_ = optimizer_->bytes_sent();
  observation_ = Summary();
  reported_.clear();
  samples_ = 0;
  training_s_ = 0;
  return metrics;
}

void Trainer::report(const std::string& name, double value) { reported_[name] = value; }

double Trainer::elapsed_s() const { return earlier_s_ + seconds_since(start_); }

double Trainer::progress() const noexcept {
  const double epochs = options_.epochs > 0 ? epoch_detail_ / static_cast<double>(options_.epochs) : 0;
  const double iterations =
      options_.iterations > 0 ? static_cast<double>(iteration_) / static_cast<double>(options_.iterations) : 0;
  return std::min(std::max(epochs, iterations), 1.0);
}

}  // namespace mn
