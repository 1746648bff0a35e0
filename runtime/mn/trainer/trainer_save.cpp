// What a checkpoint holds of a Trainer, and how it is saved.
//
// "about" has what is the same on all ranks. The tensors "model/…", "optimizer/NAME/…" and "extensions/…" are stored
// once for all ranks; where ranks differ in buffers (batch normalization's statistics) they are rank 0's. What a rank
// has for itself is its random numbers, its buffers where they differ from rank 0's, what its optimizer keeps for
// itself, and the optimizer's state if each rank has another (local SGD).
// (1) What is not finite is not saved.
// (2) A save that fails ends with one line; training goes on, and the checkpoint before stays.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/state_names.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// "weight holds NaN or infinity"; empty if nothing does. A buffer may hold infinities: masks do.
std::string first_not_finite(const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : named_parameters(model)) {
    if (parameter.is_floating_point() && !at::isfinite(parameter).all().item<bool>()) {
      return name + " holds NaN or infinity";
    }
  }
  for (const auto& [name, buffer] : named_buffers(model)) {
    if (buffer.is_floating_point() && at::isnan(buffer).any().item<bool>()) return name + " holds NaN";
  }
  return "";
}

std::uint64_t hash_of(const NamedTensors& tensors) {
  std::uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    hash = hash64(name, hash);
    hash = hash64(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()), hash);
  }
  return hash;
}

void append(NamedTensors& to, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) to.emplace_back(prefix + name, tensor);
}

}  // namespace

json Trainer::replicated_state() const {
  json about = {{"iteration", iteration_},       {"epoch", epoch_},
                {"epoch_detail", epoch_detail_}, {"elapsed_s", elapsed_s()},
                {"seed", random_seed()},         {"iterator", iterator_->state()},
                {"optimizers", json::object()},  {"extensions", extensions_->states()}};
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const auto& [name, optimizer] = optimizers_[i];
    about["optimizers"][name] = {{"kind", optimizer_kind(optimizer->actual())},
                                 {"settings", json::parse(settings_[i])},
                                 {"groups", optimizer_groups(optimizer->actual(), *model_)},
                                 {"state", optimizer->state()}};
  }
  observation_->save(about);
  return about;
}

/// Collective.
void Trainer::add_buffers(Checkpoint& checkpoint) const {
  const NamedTensors buffers = named_buffers(*model_);
  const std::uint64_t own = hash_of(buffers);
  std::uint64_t roots = own;
  comm_->bcast(std::span(&roots, 1));
  const bool same = same_on_all_ranks(own, *comm_);
  append(same ? checkpoint.shared : checkpoint.root, kModelPrefix, buffers);
  if (own != roots) append(checkpoint.own, kOwnBufferPrefix, buffers);
}

/// Collective. Borrows all tensors.
Checkpoint Trainer::checkpoint() {
  Checkpoint checkpoint;
  const std::vector<json> records = comm_->gather_obj(observation_->rank_state());
  checkpoint.about = replicated_state();
  checkpoint.about["ranks"] = records;
  append(checkpoint.shared, kModelPrefix, named_parameters(*model_));
  checkpoint.own = random_state(comm_->device());
  add_buffers(checkpoint);
  for (const auto& [name, optimizer] : optimizers_) {
    const NamedTensors state = optimizer_tensors(optimizer->actual(), *model_);
    const bool own = optimizer->local();
    append(own ? checkpoint.own : checkpoint.shared, own ? own_state_prefix(name) : state_prefix(name), state);
    append(checkpoint.own, own_prefix(name), optimizer->rank_state());
  }
  const NamedTensors extra = extensions_->tensors();
  append(same_on_all_ranks(hash_of(extra), *comm_) ? checkpoint.shared : checkpoint.root, kExtensionPrefix, extra);
  return checkpoint;
}

/// Collective.
void Trainer::check_finite(const std::filesystem::path& path) const {
  std::string found = first_not_finite(*model_);
  if (!found.empty()) found += " on rank " + std::to_string(comm_->rank());
  for (const std::string& theirs : comm_->allgather_obj(found)) {
    if (theirs.empty()) continue;
    throw DataError("the checkpoint " + path.string() + " is not written, because " + theirs + " after iteration " +
                        std::to_string(iteration_) +
                        ": training has diverged; resume from the one before with a lower learning rate, a longer "
                        "warm-up or clipping, and look for samples that are not numbers",
                    true);
  }
}

void Trainer::save(const std::filesystem::path& path) {
  finish_save();
  const ActivityScope activity("writing a checkpoint", ActivityScope::kLongPatience);
  save_began_ = Clock::now();
  finish_steps();
  check_finite(path);
  save_checkpoint(*comm_, path, checkpoint());
  note_saved();
  if (path != checkpoint_path(out(), iteration_)) return;
  saved_iteration_ = iteration_;
  status_->saved(iteration_);
}

/// How long a save takes from its begin until it is committed is what the time limit must leave.
void Trainer::note_saved() {
  if (time_limit_) time_limit_->add_save(seconds_since(save_began_));
}

void Trainer::save_in_background(std::function<void()> committed) {
  if (saving_->is_under_way() && saved_iteration_ == iteration_) {
    when_committed_.push_back(std::move(committed));
    return;
  }
  finish_save();
  if (saved_iteration_ == iteration_) return committed();
  const ActivityScope activity("beginning a checkpoint", ActivityScope::kLongPatience);
  save_began_ = Clock::now();
  const std::filesystem::path path = checkpoint_path(out(), iteration_);
  finish_steps();
  check_finite(path);
  try {
    on_root<SaveError>(*comm_, [this] { set_later_checkpoints_aside(out(), iteration_); });
    saving_->begin(*comm_, path, checkpoint());
    saved_iteration_ = iteration_;
    when_committed_.push_back(std::move(committed));
  } catch (const SaveError& error) {
    warn_of_failed_save(error);
  }
}

void Trainer::finish_save() {
  if (!saving_->is_under_way()) return;
  const ActivityScope activity("committing a checkpoint", ActivityScope::kLongPatience);
  const auto committed = std::exchange(when_committed_, {});
  try {
    saving_->commit();
    note_saved();
    status_->saved(saved_iteration_);
  } catch (const SaveError& error) {
    saved_iteration_ = kNotSaved;
    return warn_of_failed_save(error);
  }
  for (const auto& each : committed) each();
}

/// (2)
void Trainer::warn_of_failed_save(const SaveError& error) const {
  if (is_root()) log_warning(std::string(error.what()) + "; training goes on, and the checkpoint before stays");
}

}  // namespace mn
