#include <mn/trainer/trainer.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/storage.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/comm/create_communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/periodic_agreement.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/straggler_watch.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/training_state.hpp>
#include <mn/trainer/training_step.hpp>

namespace mn {
namespace {

using nlohmann::json;

class FunctionExtension final : public Extension {
 public:
  FunctionExtension(std::string name, Duration duration, std::function<void(Trainer&)> function)
      : name_(std::move(name)), duration_(duration), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  Duration duration() const override { return duration_; }
  void run(Trainer& trainer) override { function_(trainer); }

 private:
  std::string name_;
  Duration duration_;
  std::function<void(Trainer&)> function_;
};

/// Collective, after rank 0 has locked the folder. Warns if a loss of rank 0's node would also lose the folder, unless
/// the node exports its disk to all nodes.
void warn_of_volatile_storage(const std::filesystem::path& out, Communicator& comm) {
  OutText owner;  // text of the lock file, equal on all nodes that share the folder
  owner << std::ifstream(out / ".lock").rdbuf();
  const bool is_shared = comm.inter_size() > 1 && same_on_all_ranks(hash64(owner.str()), comm);
  if (comm.rank() != 0 || (comm.inter_size() == 1 && !environment("SLURM_JOB_ID"))) return;
  const std::string kind = volatile_storage(out);
  if (kind.empty() || (is_shared && is_disk(kind))) return;
  log_warning("the output folder " + out.string() + " is on " + kind +
              ", which goes with this node: give a folder on storage that all nodes share (--out)");
}

std::uint64_t bytes_of_tensors(const torch::nn::Module& model) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : named_tensors(model)) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::shared_ptr<MultiNodeOptimizer> optimizer,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
                 TrainerOptions options)
    : Trainer(std::move(comm), std::vector<NamedOptimizer>{{"main", std::move(optimizer)}}, std::move(iterator),
              std::move(model), StepProgram{std::move(compute_loss), nullptr}, std::move(options)) {}

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, UpdateParameters update,
                 TrainerOptions options)
    : Trainer(std::move(comm), std::move(optimizers), std::move(iterator), std::move(model),
              StepProgram{nullptr, std::move(update)}, std::move(options)) {}

Trainer::Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                 std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, StepProgram program,
                 TrainerOptions options)
    : comm_(std::move(comm)),
      optimizers_(std::move(optimizers)),
      iterator_(std::move(iterator)),
      model_(std::move(model)),
      options_(std::move(options)),
      extensions_(std::make_unique<ExtensionList>(comm_.get(), [this] { return elapsed_s(); })),
      observation_(std::make_unique<Observation>()),
      agreement_(std::make_unique<PeriodicAgreement>()),
      stragglers_(std::make_unique<StragglerWatch>()) {
  check_arguments(program);
  if (comm_->device().type != DeviceType::kCpu && !options_.trace) {
    work_ = std::make_unique<DeviceTimer>(comm_->device());
  }
  prepare_out();
  check_iterator();
  name_tensors(*model_);
  make_parts(std::move(program));
}

Trainer::~Trainer() = default;

void Trainer::check_arguments(const StepProgram& program) const {
  constexpr const char* kNeeds =
      "a Trainer needs a communicator, an optimizer, an iterator, a model and a loss function";
  std::set<std::string> names;
  for (const auto& [name, optimizer] : optimizers_) {
    if (!optimizer) throw ArgumentError(kNeeds);
    if (name.empty() || !names.insert(name).second) {
      throw ArgumentError("the optimizers of a Trainer need different names, got \"" + name + "\"");
    }
  }
  if (optimizers_.empty()) throw ArgumentError("a Trainer needs an optimizer");
  if (!comm_ || !iterator_ || !model_ || (!program.compute_loss && !program.update)) throw ArgumentError(kNeeds);
  if (options_.epochs < 0 || options_.iterations < 0 || options_.epochs + options_.iterations == 0) {
    throw UsageError("training has no end: the number of epochs or of iterations must be at least 1");
  }
  if (options_.accumulate < 1 || (program.update && options_.accumulate > 1)) {
    throw UsageError(
        "an iteration accumulates at least 1 minibatch, and no more where the program updates by itself; "
        "got " +
        std::to_string(options_.accumulate));
  }
}

void Trainer::prepare_out() {
  std::uint64_t room = 0;
  if (options_.checkpoint_on_signal) {
    const std::uint64_t weights = bytes_of_tensors(*model_);
    std::uint64_t checkpoint = weights;
    for (const auto& [name, optimizer] : optimizers_) {
      const int copies = optimizer->local() ? comm_->size() : 1;
      checkpoint += copies * optimizer_state_bytes(optimizer->actual());
    }
    if (is_root()) time_limit_ = std::make_unique<TimeLimit>(checkpoint);
    room = checkpoint + weights;  // the program may write weights beside the checkpoint
  }
  options_.out = std::filesystem::absolute(options_.out);  // because the program may change the current folder
  status_ = std::make_unique<RunStatus>(is_root());
  on_root<UsageError>(*comm_, [&] { folder_ = std::make_unique<OutputFolder>(options_.out, room); });
  warn_of_volatile_storage(options_.out, *comm_);
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
                   json(comm_->allgather_obj(json(steps))).dump() +
                   "): every rank must make the same number, with fewer samples in some if need be");
}

void Trainer::check_order() const {
  const json state = iterator_->state();
  json order;
  // The order of samples is compared only between iterators with a dataset. Keys that depend on a rank's own data are
  // left out, because a rank may have no data (create_empty_dataset).
  for (const char* key : {"samples", "ranks", "batchsize", "shuffle", "sticky", "seed", "epoch", "consumed"}) {
    if (state.contains("dataset") && state.contains(key)) order[key] = state.at(key);
  }
  prove_equal(order, "the order of the training samples", *comm_);
}

void Trainer::make_parts(StepProgram program) {
  parts_ = std::make_unique<TrainingParts>(TrainingParts{.comm = *comm_,
                                                         .optimizers = optimizers_,
                                                         .iterator = *iterator_,
                                                         .model = *model_,
                                                         .extensions = *extensions_,
                                                         .observation = *observation_,
                                                         .accumulate = options_.accumulate});
  for (const auto& [name, optimizer] : optimizers_) {
    parts_->initial_settings.push_back(optimizer_settings(optimizer->actual()));
  }
  parts_->initially_frozen = frozen_parameters(*model_);
  comm_->broadcast_data(*model_);  // because optimizers broadcast only their own parameters
  checkpointer_ =
      std::make_unique<Checkpointer>(*parts_, Checkpointer::Surroundings{.out = options_.out,
                                                                         .folder = folder_.get(),
                                                                         .status = status_.get(),
                                                                         .time_limit = time_limit_.get(),
                                                                         .finish_steps = [this] { finish_steps(); },
                                                                         .is_run_over = [this] { return is_over(); }});
  for (const auto& [name, optimizer] : optimizers_) optimizer->average_statistics(*model_);
  const auto after_forward = [this](const at::Tensor& loss, bool is_mean, const Summary& metrics) {
    if (is_mean) extensions_->after_forward(*this, loss);
    extensions_->observe(loss, metrics);
  };
  step_ = std::make_unique<TrainingStep>(
      *parts_, std::move(program), options_, [this] { return next_batch(); }, after_forward);
}

void Trainer::add(std::unique_ptr<Extension> extension, ExtendOptions options) {
  extensions_->add(std::move(extension), options);
}

void Trainer::extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function) {
  const bool always = trigger.unit == IntervalUnit::kIteration && trigger.every <= 1;
  const Duration duration = always ? Duration::kShort : Duration::kLong;
  add(std::make_unique<FunctionExtension>(name, duration, std::move(function)), {.trigger = trigger});
}

bool Trainer::is_pending(const Extension& extension) const { return extensions_->is_pending(extension); }

bool Trainer::resume(const std::string& from) {
  const auto checkpoint = CheckpointReader::open(*comm_, from, out());
  if (!checkpoint) return false;
  restore_training(*parts_, *checkpoint);
  resumed_from_ = from == "auto" ? std::filesystem::path() : std::filesystem::absolute(from);
  checkpointer_->note_resume(checkpoint->path());
  if (is_root()) {
    log_info("resumed after iteration " + std::to_string(iteration()) + ", epoch " + std::to_string(epoch()));
  }
  return true;
}

std::size_t Trainer::index_of(const std::string& optimizer) const {
  std::string names;
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    if (optimizers_[i].name == optimizer) return i;
    names += (i == 0 ? "" : ", ") + optimizers_[i].name;
  }
  throw ArgumentError("the trainer has no optimizer named \"" + optimizer + "\": it has " + names);
}

MultiNodeOptimizer& Trainer::optimizer(const std::string& name) const { return *optimizers_[index_of(name)].optimizer; }

std::optional<double> Trainer::initial_rate(std::size_t group, const std::string& name) const {
  const json& groups = parts_->initial_settings[name.empty() ? 0 : index_of(name)];
  if (group >= groups.size() || !groups[group].contains("lr")) return std::nullopt;
  return groups[group]["lr"].get<double>();
}

Metrics Trainer::take_observation() {
  check_held(folder_.get(), *comm_);  // the caller will write the log in this folder
  wait_for_losses();
  Metrics metrics = observation_->take(*comm_, iteration(), parts_->bytes_sent());
  if (const auto rest = rest_.lock()) *observation_ = *rest;
  return metrics;
}

std::vector<std::string> Trainer::observed_names() {
  wait_for_losses();
  std::set<std::string> names;
  for (const json& theirs : comm_->allgather_obj(observation_->names())) {
    for (const auto& name : theirs) names.insert(name.get<std::string>());
  }
  return {names.begin(), names.end()};
}

void Trainer::report(const std::string& name, double value) {
  if (!extensions_->take_report(*this, name, value)) observation_->report(name, value);
}

void Trainer::report_mean(const std::string& name, double value) { observation_->report_mean(name, value); }

void Trainer::average_kept_statistics() { extensions_->average_kept_statistics(*this); }

std::int64_t Trainer::iteration() const noexcept { return parts_->counters.iteration; }

std::int64_t Trainer::iterations_per_epoch() const {
  return (iterator_->steps_per_epoch() + options_.accumulate - 1) / options_.accumulate;
}

std::int64_t Trainer::epoch() const noexcept { return parts_->counters.epoch; }

double Trainer::epoch_detail() const noexcept { return parts_->counters.epoch_detail; }

double Trainer::elapsed_s() const { return parts_->counters.elapsed_s(); }

double Trainer::progress() const noexcept {
  const double epochs = options_.epochs > 0 ? epoch_detail() / static_cast<double>(options_.epochs) : 0;
  const double iterations =
      options_.iterations > 0 ? static_cast<double>(iteration()) / static_cast<double>(options_.iterations) : 0;
  return std::min(std::max(epochs, iterations), 1.0);
}

}  // namespace mn
