#include <algorithm>
#include <set>
#include <span>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/trace.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/periodic_agreement.hpp>
#include <mn/trainer/signals.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

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
    : Trainer(std::move(comm), std::vector<NamedOptimizer>{{"main", std::move(optimizer)}}, std::move(iterator),
              std::move(model), std::move(compute_loss), nullptr, std::move(options)) {}

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, UpdateParameters update,
                 TrainerOptions options)
    : Trainer(std::move(comm), std::move(optimizers), std::move(iterator), std::move(model), nullptr, std::move(update),
              std::move(options)) {}

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
                 UpdateParameters update, TrainerOptions options)
    : comm_(std::move(comm)),
      optimizers_(std::move(optimizers)),
      iterator_(std::move(iterator)),
      model_(std::move(model)),
      compute_loss_(std::move(compute_loss)),
      update_(std::move(update)),
      options_(std::move(options)),
      extensions_(std::make_unique<ExtensionList>([this] { return elapsed_s(); })),
      observation_(std::make_unique<Observation>()),
      agreement_(std::make_unique<PeriodicAgreement>()) {
  check_optimizers();
  if (!comm_ || !iterator_ || !model_ || (!compute_loss_ && !update_)) {
    throw ArgumentError("a Trainer needs a communicator, an optimizer, an iterator, a model and a loss function");
  }
  if (options_.epochs < 0 || options_.iterations < 0 || options_.epochs + options_.iterations == 0) {
    throw UsageError("training has no end: the number of epochs or of iterations must be at least 1");
  }
  if (options_.accumulate < 1 || (update_ && options_.accumulate > 1)) {
    throw UsageError(
        "an iteration accumulates at least 1 minibatch, and no more where the program updates by itself; "
        "got " +
        std::to_string(options_.accumulate));
  }
  prepare_out();
  check_iterator();
  for (const auto& [name, optimizer] : optimizers_) settings_.push_back(optimizer_settings(optimizer->actual()).dump());
  name_tensors(*model_);
  comm_->broadcast_data(*model_);  // also what the optimizers do not hold
  std::vector<at::Tensor> statistics;
  for (const auto& [name, buffer] : running_statistics(*model_)) statistics.push_back(buffer);
  for (const auto& [name, optimizer] : optimizers_) optimizer->average_also(statistics);
}

Trainer::~Trainer() = default;

void Trainer::check_optimizers() const {
  std::set<std::string> names;
  for (const auto& [name, optimizer] : optimizers_) {
    if (!optimizer)
      throw ArgumentError("a Trainer needs a communicator, an optimizer, an iterator, a model and a loss function");
    if (name.empty() || !names.insert(name).second) {
      throw ArgumentError("the optimizers of a Trainer need different names, got \"" + name + "\"");
    }
  }
  if (optimizers_.empty()) throw ArgumentError("a Trainer needs an optimizer");
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

void Trainer::check_iterator() const {
  const int ranks = iterator_->ranks();
  if (ranks != 0 && ranks != comm_->size()) {
    throw UsageError("the training iterator divides its samples between " + std::to_string(ranks) + " ranks, but " +
                     std::to_string(comm_->size()) +
                     " train, which would repeat samples: give it the part that scatter_dataset() returns");
  }
  const std::int64_t steps = iterator_->steps_per_epoch();
  if (same_on_all_ranks(static_cast<std::uint64_t>(steps), *comm_)) return check_order();
  throw UsageError("the training iterators of the ranks have different numbers of steps in an epoch (" +
                   nlohmann::json(comm_->allgather_obj(nlohmann::json(steps))).dump() +
                   "): every rank must make the same number, with fewer samples in some if need be");
}

void Trainer::check_order() const {
  const nlohmann::json state = iterator_->state();
  nlohmann::json order;
  // What a Sampler's state says beyond these follows from the data, of which a rank may have none
  // (create_empty_dataset); other iterators may have states of their own on each rank.
  for (const char* key : {"samples", "ranks", "batchsize", "shuffle", "sticky", "seed", "epoch", "consumed"}) {
    if (state.contains("dataset") && state.contains(key)) order[key] = state.at(key);
  }
  prove_equal(order, "the order of the training samples", *comm_);
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
    extensions_->run(*this, {iteration_, previous_epoch_detail_, epoch_detail()});
  }
  if (requeue) signal.keep();
  synchronize();
  requeue = requeue && !finished();
  if (requeue) {
    const std::filesystem::path path = checkpoint_path(out(), iteration_);
    on_root<DataError>(
        *comm_, [this] { set_later_checkpoints_aside(out(), iteration_); }, true);
    save(path);
    stop_reason_ = "a signal asked for it, after a checkpoint";
    if (is_root()) log_info("a signal asked for the end: checkpointed in " + path.string() + ", requeue the job");
  }
  extensions_->finalize(*this);
  comm_->barrier();  // every file of rank 0 is complete
  return requeue ? kExitRequeue : 0;
}

void Trainer::begin() {
  start_ = Clock::now();
  stopped_ = false;
  stop_reason_.clear();
  saved_iteration_ = iteration_;
  observation_->begin(iteration_, bytes_sent());
  if (!is_training(*model_)) set_training(*model_, true);
  extensions_->initialize(*this);
  agreement_->begin(iteration_);
}

std::optional<double> Trainer::initial_rate(std::size_t group) const {
  const nlohmann::json groups = nlohmann::json::parse(settings_.front());
  if (group >= groups.size() || !groups[group].contains("lr")) return std::nullopt;
  return groups[group]["lr"].get<double>();
}

std::int64_t Trainer::iterations_per_epoch() const {
  return (iterator_->steps_per_epoch() + options_.accumulate - 1) / options_.accumulate;
}

void Trainer::finish_steps() {
  synchronize();
  wait_for_losses();
}

/// Reading the losses waits for the device. That wait is training time.
void Trainer::wait_for_losses() {
  const auto begin = Clock::now();
  observation_->read();
  observation_->add_time(seconds_since(begin));
}

/// Ranks exchange what only one of them knows: a signal, and which periods of seconds are over by rank 0's clock. True
/// if training is to stop.
bool Trainer::agree(bool signalled) {
  const bool needed = options_.checkpoint_on_signal || extensions_->any_by_seconds();
  if (!needed || !agreement_->is_due(iteration_)) return false;
  std::vector<std::int64_t> flags = extensions_->due();
  const std::size_t count = flags.size();
  if (!is_root()) flags.assign(count, 0);
  flags.push_back(signalled ? 1 : 0);
  agreement_->exchange(flags, iteration_, *comm_);
  extensions_->set_due(std::span(flags).first(count));
  return flags.back() != 0;
}

void Trainer::stop(const std::string& why) {
  if (std::exchange(stopped_, true)) return;
  stop_reason_ = why;
  if (is_root()) {
    log_info("training ends after iteration " + std::to_string(iteration_) + ": " + why);
  }
}

std::string Trainer::end_reason() const {
  if (!stop_reason_.empty()) return stop_reason_;
  if (options_.epochs > 0 && epoch_ >= options_.epochs) return std::to_string(epoch_) + " epochs are over";
  if (options_.iterations > 0 && iteration_ >= options_.iterations) {
    return std::to_string(iteration_) + " iterations are over";
  }
  return "";
}

bool Trainer::finished() const noexcept {
  return stopped_ || (options_.epochs > 0 && epoch_ >= options_.epochs) ||
         (options_.iterations > 0 && iteration_ >= options_.iterations);
}

Metrics Trainer::take_observation() {
  wait_for_losses();
  return observation_->take(*comm_, iteration_, bytes_sent());
}

std::vector<std::string> Trainer::observed_names() {
  wait_for_losses();
  std::set<std::string> names;
  for (const nlohmann::json& theirs : comm_->allgather_obj(observation_->names())) {
    for (const auto& name : theirs) names.insert(name.get<std::string>());
  }
  return {names.begin(), names.end()};
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
