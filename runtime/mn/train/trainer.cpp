#include <algorithm>
#include <span>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/checkpoint/checkpoint_folder.hpp>
#include <mn/train/extension_list.hpp>
#include <mn/train/observation.hpp>
#include <mn/train/on_root.hpp>
#include <mn/train/periodic_agreement.hpp>
#include <mn/train/signals.hpp>
#include <mn/train/trace.hpp>
#include <mn/train/trainer.hpp>

namespace mn {
namespace {

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
      options_(std::move(options)),
      extensions_(std::make_unique<ExtensionList>()),
      observation_(std::make_unique<Observation>()),
      agreement_(std::make_unique<PeriodicAgreement>()) {
  if (!comm_ || !optimizer_ || !iterator_ || !model_ || !compute_loss_) {
    throw ArgumentError("a Trainer needs a communicator, an optimizer, an iterator, a model and a loss function");
  }
  if (options_.epochs < 0 || options_.iterations < 0 || options_.epochs + options_.iterations == 0) {
    throw UsageError("training has no end: the number of epochs or of iterations must be at least 1");
  }
  prepare_out();
  name_tensors(*model_);
  comm_->broadcast_data(*model_);  // also what the optimizer does not hold
  optimizer_->average_also(buffers_of(*model_));
}

Trainer::~Trainer() = default;

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
  extensions_->add(std::move(extension), options);
}

void Trainer::extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function) {
  add(std::make_unique<FunctionExtension>(name, std::move(function)), {.trigger = trigger});
}

int Trainer::run() {
  SignalFlag signal(options_.checkpoint_on_signal);
  begin();
  bool requeue = false;
  while (!finished() && !requeue) {
    advance();
    requeue = agree(signal.raised());
    extensions_->run(*this, previous_epoch_detail_);
  }
  if (requeue) signal.keep();
  optimizer_->synchronize();
  requeue = requeue && !finished();
  if (requeue) {
    const std::filesystem::path path = checkpoint_path(out(), iteration_);
    save(path);
    if (is_root()) log_info("a signal asked for the end: checkpointed in " + path.string() + ", requeue the job");
  }
  extensions_->finalize(*this);
  comm_->barrier();  // every file of rank 0 is complete
  return requeue ? kExitRequeue : 0;
}

void Trainer::begin() {
  start_ = Clock::now();
  observation_->begin(iteration_, optimizer_->bytes_sent());
  set_training(*model_, true);
  extensions_->initialize(*this);
  agreement_->begin(iteration_);
}

Batch Trainer::next_batch() {
  const Trace::Scope scope(options_.trace.get(), "wait for data", Trace::Lane::kData);
  std::optional<Batch> batch = iterator_->next();
  if (!batch) {
    throw DataError("epoch " + std::to_string(epoch_ + 1) + " of training has no minibatch left after " +
                        std::to_string(epoch_detail_) + " epochs: the dataset is empty or shorter than it says",
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
  observation_->add_time(step_s);
}

void Trainer::end_epoch() {
  ++epoch_;
  if (iterator_->next())
    throw Error("the training iterator continues after the end of epoch " + std::to_string(epoch_));
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
    observation_->add_loss(loss, batch.samples);
  }
  optimizer_->step(batch.samples);
  observation_->add_samples(batch.samples);
}

at::Tensor Trainer::forward(const Batch& batch) {
  const Trace::Scope scope(options_.trace.get(), "forward", Trace::Lane::kCompute);
  Summary metrics;
  at::Tensor loss = compute_loss_(batch, metrics);
  if (!loss.defined() || loss.numel() != 1) {
    throw ArgumentError("the loss function must return a tensor of one element");
  }
  extensions_->after_forward(*this, loss);
  observation_->add_metrics(metrics);
  return loss;
}

void Trainer::finish_steps() {
  optimizer_->synchronize();
  wait_for_losses();
}

/// Reading the losses waits for the device. That wait is training time.
void Trainer::wait_for_losses() {
  const auto begin = Clock::now();
  observation_->read_losses();
  observation_->add_time(seconds_since(begin));
}

/// Ranks exchange what only one of them knows: a signal, and which periods of seconds are over by rank 0's clock. True
/// if training is to stop.
bool Trainer::agree(bool signalled) {
  const bool needed = options_.checkpoint_on_signal || extensions_->any_by_seconds();
  if (!needed || !agreement_->is_due(iteration_)) return false;
  std::vector<std::int64_t> flags = extensions_->due(elapsed_s());
  const std::size_t count = flags.size();
  if (!is_root()) flags.assign(count, 0);
  flags.push_back(signalled ? 1 : 0);
  agreement_->exchange(flags, iteration_, *comm_);
  extensions_->set_due(std::span(flags).first(count));
  return flags.back() != 0;
}

bool Trainer::finished() const noexcept {
  return (options_.epochs > 0 && epoch_ >= options_.epochs) ||
         (options_.iterations > 0 && iteration_ >= options_.iterations);
}

Metrics Trainer::take_observation() {
  wait_for_losses();
  return observation_->take(*comm_, iteration_, optimizer_->bytes_sent());
}

void Trainer::report(const std::string& name, double value) { observation_->report(name, value); }

double Trainer::elapsed_s() const { return earlier_s_ + seconds_since(start_); }

double Trainer::progress() const noexcept {
  const double epochs = options_.epochs > 0 ? epoch_detail_ / static_cast<double>(options_.epochs) : 0;
  const double iterations =
      options_.iterations > 0 ? static_cast<double>(iteration_) / static_cast<double>(options_.iterations) : 0;
  return std::min(std::max(epochs, iterations), 1.0);
}

}  // namespace mn
