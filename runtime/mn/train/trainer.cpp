#include <algorithm>
#include <span>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/checkpoint/checkpoint_folder.hpp>
#include <mn/train/checkpoint/optimizer_settings.hpp>
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
  if (options_.accumulate < 1) {
    throw UsageError("an iteration accumulates at least 1 minibatch, got " + std::to_string(options_.accumulate));
  }
  prepare_out();
  check_iterator();
  settings_ = optimizer_settings(optimizer_->actual()).dump();
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

void Trainer::check_iterator() const {
  const int ranks = iterator_->ranks();
  if (ranks != 0 && ranks != comm_->size()) {
    throw UsageError("the training iterator divides its samples between " + std::to_string(ranks) + " ranks, but " +
                     std::to_string(comm_->size()) +
                     " train, which would repeat samples: give it the part that scatter_dataset() returns");
  }
  const std::int64_t steps = iterator_->steps_per_epoch();
  if (same_on_all_ranks(static_cast<std::uint64_t>(steps), *comm_)) return;
  throw UsageError("the training iterators of the ranks have different numbers of steps in an epoch (" +
                   nlohmann::json(comm_->allgather_obj(nlohmann::json(steps))).dump() +
                   "): every rank must make the same number, with fewer samples in some if need be");
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
    on_root<DataError>(
        *comm_, [this] { set_later_checkpoints_aside(out(), iteration_); }, true);
    save(path);
    if (is_root()) log_info("a signal asked for the end: checkpointed in " + path.string() + ", requeue the job");
  }
  extensions_->finalize(*this);
  comm_->barrier();  // every file of rank 0 is complete
  return requeue ? kExitRequeue : 0;
}

void Trainer::begin() {
  start_ = Clock::now();
  stopped_ = false;
  observation_->begin(iteration_, optimizer_->bytes_sent());
  if (!is_training(*model_)) set_training(*model_, true);
  extensions_->initialize(*this);
  agreement_->begin(iteration_);
}

Batch Trainer::next_batch() {
  const Trace::Scope scope(options_.trace.get(), "wait for data", Trace::Lane::kData);
  const auto begin = Clock::now();
  std::optional<Batch> batch = iterator_->next();
  last_step_.data_s += seconds_since(begin);
  if (!batch) {
    throw DataError("epoch " + std::to_string(epoch_ + 1) + " of training has no minibatch left after " +
                        std::to_string(epoch_detail_) + " epochs: the dataset is empty or shorter than it says",
                    true);
  }
  return *std::move(batch);
}

bool Trainer::at_epoch_end() const { return iterator_->epoch_detail() >= static_cast<double>(epoch_ + 1); }

std::int64_t Trainer::iterations_per_epoch() const {
  return (iterator_->steps_per_epoch() + options_.accumulate - 1) / options_.accumulate;
}

void Trainer::advance() {
  const auto begin = Clock::now();
  const double waited_before = optimizer_->communication_s();
  const std::uint64_t bytes_before = optimizer_->bytes_sent();
  last_step_.data_s = 0;
  train();
  ++iteration_;
  previous_epoch_detail_ = epoch_detail_;
  epoch_detail_ = iterator_->epoch_detail();
  if (at_epoch_end()) end_epoch();
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

/// One iteration: the gradients of its minibatches add up to that of the mean loss over all their samples.
void Trainer::train() {
  optimizer_->zero_grad();
  Accumulated all;
  for (std::int64_t done = 1;; ++done) {
    const Batch batch = next_batch();
    const bool last = done == options_.accumulate || at_epoch_end();
    accumulate(batch, all, last);
    if (last) break;
  }
  if (!all.as_planned()) {  // minibatches of different sizes: the sum was scaled for other samples
    optimizer_->scale_gradients(static_cast<double>(all.planned) / static_cast<double>(all.samples));
  }
  optimizer_->step(all.samples);
  observation_->add_samples(all.samples);
}

void Trainer::accumulate(const Batch& batch, Accumulated& all, bool last) {
  if (batch.samples == 0) return;
  if (all.planned == 0) all.planned = batch.samples * options_.accumulate;
  all.samples += batch.samples;
  at::Tensor loss = forward(batch);
  observation_->add_loss(loss, batch.samples);
  if (batch.samples != all.planned) {
    loss = loss.mul(static_cast<double>(batch.samples) / static_cast<double>(all.planned));
  }
  const Trace::Scope scope(options_.trace.get(), "backward", Trace::Lane::kCompute);
  const bool complete = last && all.as_planned();
  const auto more_follow = complete ? nullptr : optimizer_->no_sync();  // other minibatches, or their scaling
  if (complete) optimizer_->announce_step(all.samples);
  loss.backward();
  if (options_.trace) wait_for_device(comm_->device());
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

void Trainer::stop(const std::string& why) {
  if (!std::exchange(stopped_, true) && is_root()) {
    log_info("training ends after iteration " + std::to_string(iteration_) + ": " + why);
  }
}

bool Trainer::finished() const noexcept {
  return stopped_ || (options_.epochs > 0 && epoch_ >= options_.epochs) ||
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
