#include <mn/trainer/loop_checkpoints.hpp>

#include <utility>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/checkpointer.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/training_state.hpp>

namespace mn {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kOwnValue = "own";  // name of OwnValue in a checkpoint

/// An extension without work of its own. The program's value is its state; therefore checkpoints store the value.
struct OwnValue final : Extension {
  std::string name() const override { return kOwnValue; }
  json state() const override { return value; }
  json value;
};

}  // namespace

class LoopCheckpoints::Impl {
 public:
  Impl(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers, Iterator& iterator,
       torch::nn::Module& model, const fs::path& out, std::size_t keep);

  bool resume(const std::string& from);
  void save(std::int64_t step, const json& own);
  [[nodiscard]] const TrainingCounters& counters() const noexcept { return parts_.counters; }
  [[nodiscard]] const json& own() const noexcept { return own_->value; }

 private:
  [[nodiscard]] bool is_root() const { return comm_->rank() == 0; }
  void add_own_value();
  void remove_old();
  [[nodiscard]] Checkpointer::Surroundings surroundings();

  std::shared_ptr<Communicator> comm_;
  std::vector<NamedOptimizer> optimizers_;
  fs::path out_;
  std::size_t keep_;
  OwnValue* own_ = nullptr;  // in extensions_
  ExtensionList extensions_{comm_.get(), [this] { return parts_.counters.elapsed_s(); }};
  Observation observation_;  // always empty, because the program itself adds up its losses
  TrainingParts parts_;
  RunStatus status_;
  std::unique_ptr<OutputFolder> folder_;  // on rank 0
  std::unique_ptr<Checkpointer> checkpointer_;
};

LoopCheckpoints::Impl::Impl(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                            Iterator& iterator, torch::nn::Module& model, const fs::path& out, std::size_t keep)
    : comm_(std::move(comm)),
      optimizers_(std::move(optimizers)),
      out_(fs::absolute(out)),
      keep_(keep),
      parts_{.comm = *comm_,
             .optimizers = optimizers_,
             .iterator = iterator,
             .model = model,
             .extensions = extensions_,
             .observation = observation_,
             .initially_frozen = frozen_parameters(model)},
      status_(is_root()) {
  if (keep_ == 0) throw UsageError("the number of checkpoints to keep must be at least 1, got 0");
  on_root<UsageError>(*comm_, [&] { folder_ = std::make_unique<OutputFolder>(out_, 0); });
  for (const auto& [name, optimizer] : optimizers_) {
    parts_.initial_settings.push_back(optimizer_settings(optimizer->actual()));
  }
  name_tensors(model);
  add_own_value();
  checkpointer_ = std::make_unique<Checkpointer>(parts_, surroundings());
  status_.began(0);
}

void LoopCheckpoints::Impl::add_own_value() {
  auto own = std::make_unique<OwnValue>();
  own_ = own.get();
  extensions_.add(std::move(own), {});
}

Checkpointer::Surroundings LoopCheckpoints::Impl::surroundings() {
  const auto finish_steps = [this] {
    for (const auto& [name, optimizer] : optimizers_) optimizer->synchronize();
  };
  return {.out = out_, .folder = folder_.get(), .status = &status_, .finish_steps = finish_steps, .is_run_over = [] {
            return false;
          }};
}

bool LoopCheckpoints::Impl::resume(const std::string& from) {
  const auto checkpoint = CheckpointReader::open(*comm_, from, out_);
  if (!checkpoint) return false;
  restore_training(parts_, *checkpoint, "the checkpoint (" + from + ")");
  const json& extensions = checkpoint->about().at("extensions");
  const bool has_own = extensions.contains(kOwnValue);  // a Trainer's checkpoint has no such value
  own_->value = has_own ? from_storable(extensions.at(kOwnValue), "the checkpoint's value of the program") : json();
  checkpointer_->note_resume(checkpoint->path());
  status_.began(counters().iteration);
  if (is_root()) log_info("resumed after step " + std::to_string(counters().iteration));
  return true;
}

void LoopCheckpoints::Impl::save(std::int64_t step, const json& own) {
  if (step < counters().iteration) {
    throw ArgumentError("a checkpoint of step " + std::to_string(step) + " after one of step " +
                        std::to_string(counters().iteration) + ": count on from LoopCheckpoints::step()");
  }
  parts_.counters.iteration = step;
  parts_.counters.epoch = parts_.iterator.epoch();
  parts_.counters.epoch_detail = parts_.iterator.epoch_detail();
  own_->value = own;
  checkpointer_->save(checkpoint_path(out_, step));
  remove_old();
}

/// Removes old checkpoints. If one cannot be removed, training continues.
void LoopCheckpoints::Impl::remove_old() {
  if (!is_root()) return;
  try {
    remove_old_checkpoints(out_, keep_);
  } catch (const DataError& error) {
    log_warning(error.what() + std::string("; old checkpoints stay"));
  }
}

LoopCheckpoints::LoopCheckpoints(std::shared_ptr<Communicator> comm, MultiNodeOptimizer& optimizer, Iterator& iterator,
                                 torch::nn::Module& model, const fs::path& out, std::size_t keep)
    : LoopCheckpoints(std::move(comm),
                      // This pointer owns nothing, because the optimizer belongs to the program.
                      {{"main", std::shared_ptr<MultiNodeOptimizer>(std::shared_ptr<void>(), &optimizer)}}, iterator,
                      model, out, keep) {}

LoopCheckpoints::LoopCheckpoints(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                                 Iterator& iterator, torch::nn::Module& model, const fs::path& out, std::size_t keep)
    : impl_(std::make_unique<Impl>(std::move(comm), std::move(optimizers), iterator, model, out, keep)) {}

LoopCheckpoints::~LoopCheckpoints() = default;

bool LoopCheckpoints::resume(const std::string& from) { return impl_->resume(from); }

std::int64_t LoopCheckpoints::step() const noexcept { return impl_->counters().iteration; }

const json& LoopCheckpoints::own() const noexcept { return impl_->own(); }

void LoopCheckpoints::save(std::int64_t step) { impl_->save(step, {}); }

void LoopCheckpoints::save(std::int64_t step, const json& own) { impl_->save(step, own); }

}  // namespace mn
