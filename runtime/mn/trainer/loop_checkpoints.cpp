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

/// An extension whose state is the program's own value, so that checkpoints store the value.
struct OwnValue final : Extension {
  std::string name() const override { return kOwnValue; }
  json state() const override { return value; }
  json value;
};

}  // namespace

/// The parts of a training without a Trainer. In a training with a Trainer, the Trainer holds these parts.
struct LoopCheckpoints::Impl {
  Impl(std::shared_ptr<Communicator> communicator, std::vector<NamedOptimizer> named, Iterator& iterator,
       torch::nn::Module& model, const fs::path& folder_path, std::size_t kept);

  std::shared_ptr<Communicator> comm;
  std::vector<NamedOptimizer> optimizers;
  fs::path out;
  std::size_t keep;
  OwnValue* own = nullptr;  // in `extensions`
  ExtensionList extensions{comm.get(), [this] { return parts.counters.elapsed_s(); }};
  Observation observation;  // always empty: the program adds up its losses itself
  TrainingParts parts;
  RunStatus status;
  std::unique_ptr<OutputFolder> folder;  // on rank 0
  std::unique_ptr<Checkpointer> checkpointer;
};

LoopCheckpoints::Impl::Impl(std::shared_ptr<Communicator> communicator, std::vector<NamedOptimizer> named,
                            Iterator& iterator, torch::nn::Module& model, const fs::path& folder_path, std::size_t kept)
    : comm(std::move(communicator)),
      optimizers(std::move(named)),
      out(fs::absolute(folder_path)),
      keep(kept),
      parts{.comm = *comm,
            .optimizers = optimizers,
            .iterator = iterator,
            .model = model,
            .extensions = extensions,
            .observation = observation,
            .initially_frozen = frozen_parameters(model)},
      status(comm->rank() == 0) {
  if (keep == 0) throw UsageError("the number of checkpoints to keep must be at least 1, got 0");
  on_root<UsageError>(*comm, [&] { folder = std::make_unique<OutputFolder>(out, 0); });
  for (const auto& [name, optimizer] : optimizers) {
    parts.initial_settings.push_back(optimizer_settings(optimizer->actual()));
  }
  name_tensors(model);
  auto value = std::make_unique<OwnValue>();
  own = value.get();
  extensions.add(std::move(value), {});
  const auto finish_steps = [this] {
    for (const auto& [name, optimizer] : optimizers) optimizer->synchronize();
  };
  const auto is_over = [] { return false; };
  checkpointer = std::make_unique<Checkpointer>(
      parts, Checkpointer::Surroundings{out, folder.get(), &status, nullptr, finish_steps, is_over});
  status.began(0);
}

LoopCheckpoints::LoopCheckpoints(std::shared_ptr<Communicator> comm, MultiNodeOptimizer& optimizer, Iterator& iterator,
                                 torch::nn::Module& model, const fs::path& out, std::size_t keep)
    : LoopCheckpoints(std::move(comm),
                      // The pointer does not own the optimizer, because the optimizer belongs to the program.
                      {{"main", std::shared_ptr<MultiNodeOptimizer>(std::shared_ptr<void>(), &optimizer)}}, iterator,
                      model, out, keep) {}

LoopCheckpoints::LoopCheckpoints(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
                                 Iterator& iterator, torch::nn::Module& model, const fs::path& out, std::size_t keep)
    : impl_(std::make_unique<Impl>(std::move(comm), std::move(optimizers), iterator, model, out, keep)) {}

LoopCheckpoints::~LoopCheckpoints() = default;

bool LoopCheckpoints::resume(const std::string& from) {
  const auto checkpoint = CheckpointReader::open(*impl_->comm, from, impl_->out);
  if (!checkpoint) return false;
  restore_training(impl_->parts, *checkpoint);
  const json& saved = checkpoint->about().at("extensions");
  const bool has_own = saved.contains(kOwnValue);  // false for a checkpoint of a Trainer
  impl_->own->value = has_own ? from_storable(saved.at(kOwnValue), "the checkpoint's value of the program") : json();
  impl_->checkpointer->note_resume(checkpoint->path());
  impl_->status.began(step());
  if (impl_->comm->rank() == 0) log_info("resumed after step " + std::to_string(step()));
  return true;
}

std::int64_t LoopCheckpoints::step() const noexcept { return impl_->parts.counters.iteration; }

const json& LoopCheckpoints::own() const noexcept { return impl_->own->value; }

void LoopCheckpoints::save(std::int64_t step) { save(step, {}); }

void LoopCheckpoints::save(std::int64_t step, const json& own) {
  TrainingParts& parts = impl_->parts;
  if (step < parts.counters.iteration) {
    throw ArgumentError("a checkpoint of step " + std::to_string(step) + " after one of step " +
                        std::to_string(parts.counters.iteration) + ": count on from LoopCheckpoints::step()");
  }
  parts.counters.iteration = step;
  parts.counters.epoch = parts.iterator.epoch();
  parts.counters.epoch_detail = parts.iterator.epoch_detail();
  impl_->own->value = own;
  impl_->checkpointer->save(checkpoint_path(impl_->out, step));
  if (impl_->comm->rank() != 0) return;
  try {
    remove_old_checkpoints(impl_->out, impl_->keep);
  } catch (const DataError& error) {  // old checkpoints could not be removed, but training goes on
    log_warning(error.what() + std::string("; old checkpoints stay"));
  }
}

}  // namespace mn
