// What a checkpoint holds of a Trainer, and how it is saved.
//
// "about" has what is the same on all ranks. The tensors "model/…", "optimizer/NAME/…" and "extensions/…" are stored
// once for all ranks; where ranks differ in buffers (batch normalization's statistics) they are rank 0's. What a rank
// has for itself is its random numbers, its buffers where they differ from rank 0's, what its optimizer keeps for
// itself, and the optimizer's state if each rank has another (local SGD).
// (1) What is not finite is not saved.
// (2) A save that fails ends with one line; training goes on, and the checkpoint before stays.
// (3) What is copied beside training changes in updates alone; buffers and what optimizers keep for a rank are copied
//     before. A loss may change the parameters that no optimizer trains, and others in place: then the copy is complete
//     before the next loss.
#include <algorithm>
#include <set>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/background_save.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/not_finite.hpp>
#include <mn/checkpoint/optimizer_archive.hpp>
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
#include <mn/trainer/output_folder.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/state_names.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// "weight holds NaN or infinity"; empty if nothing does. A buffer may hold infinities: masks do.
std::string first_not_finite(const NamedTensors& parameters, const NamedTensors& buffers) {
  for (const auto& [name, parameter] : parameters) {
    if (holds_nan(parameter, true)) return name + " holds NaN or infinity";
  }
  for (const auto& [name, buffer] : buffers) {
    if (holds_nan(buffer, false)) return name + " holds NaN";
  }
  return "";
}

NamedTensors on_cpu(const NamedTensors& tensors, bool wanted) {
  NamedTensors found;
  for (const auto& each : tensors) {
    if (each.second.is_cpu() == wanted) found.push_back(each);
  }
  return found;
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

void mark_to_copy_at_once(Checkpoint& checkpoint, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) checkpoint.at_once.insert(tensor.unsafeGetTensorImpl());
}

/// An optimizer whose save() stores nothing would be noticed at a resume only.
void warn_of_unsaved_state(const torch::optim::Optimizer& optimizer, const NamedTensors& state) {
  if (state.size() != 1 || state.front().first != kArchive) return;
  const at::Tensor& archive = state.front().second;
  if (!is_empty_archive({static_cast<const char*>(archive.const_data_ptr()), archive.nbytes()})) return;
  log_warning("checkpoints do not hold the state of the optimizer " + optimizer_kind(optimizer) +
              ", whose save() stores nothing: a resumed training goes on without it");
}

}  // namespace

json Trainer::replicated_state() const {
  json about = {{"iteration", iteration_},     {"epoch", epoch_},       {"epoch_detail", epoch_detail_},
                {"elapsed_s", elapsed_s()},    {"seed", random_seed()}, {"iterator", storable(iterator_->state())},
                {"optimizers", json::object()}};
  extensions_->save(about, iteration_);
  about["samples_per_iteration"] = samples_per_iteration();
  about["frozen"] = {{"at_start", frozen_}, {"now", frozen_parameters(*model_)}};
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const auto& [name, optimizer] = optimizers_[i];
    about["optimizers"][name] = {{"kind", optimizer_kind(optimizer->actual())},
                                 {"settings", json::parse(settings_[i])},
                                 {"groups", optimizer_groups(optimizer->actual(), *model_)},
                                 {"state", storable(optimizer->state())}};
  }
  observation_->save(about, iteration_, bytes_sent());
  return about;
}

/// Collective.
void Trainer::add_buffers(Checkpoint& checkpoint) const {
  const NamedTensors buffers = named_buffers(*model_);
  mark_to_copy_at_once(checkpoint, buffers);
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
  add_tensors(checkpoint);
  if (is_root() && !std::exchange(has_looked_at_state_, true)) {
    for (const auto& [name, optimizer] : optimizers_) {
      warn_of_unsaved_state(optimizer->actual(), optimizer_tensors(optimizer->actual(), *model_));
    }
  }
  checkpoint.objection = objection();
  return checkpoint;
}

/// Collective.
void Trainer::add_tensors(Checkpoint& checkpoint) const {
  append(checkpoint.shared, kModelPrefix, named_parameters(*model_));
  checkpoint.own = random_state(comm_->device());
  add_buffers(checkpoint);
  for (const auto& [name, optimizer] : optimizers_) {
    const bool own = optimizer->local();
    append(own ? checkpoint.own : checkpoint.shared, own ? own_state_prefix(name) : state_prefix(name),
           optimizer_tensors(optimizer->actual(), *model_));
    const NamedTensors of_rank = optimizer->rank_state();
    mark_to_copy_at_once(checkpoint, of_rank);
    append(checkpoint.own, own_prefix(name), of_rank);
  }
  append(checkpoint.shared, kExtensionPrefix, extensions_->tensors(/*replicated=*/true));
  append(checkpoint.root, kExtensionPrefix, extensions_->tensors(/*replicated=*/false));
}

/// Collective.
void Trainer::prepare_saves() {
  if (!std::exchange(expects_saves_, false) || saving_->is_under_way()) return;
  Checkpoint like;
  add_tensors(like);
  // An extension may not have its tensors yet.
  for (NamedTensors* const all : {&like.shared, &like.root}) {
    std::erase_if(*all, [](const auto& each) { return !each.second.defined(); });
  }
  saving_->prepare(*comm_, like);
  is_preparing_saves_ = true;
}

/// (1): asked on the thread that copies, but for buffers and tensors on a device, which are looked at now.
std::function<std::string()> Trainer::objection() const {
  NamedTensors trained, fixed, buffers = named_buffers(*model_);  // only what trains diverges by itself
  for (const auto& each : named_parameters(*model_)) (each.second.requires_grad() ? trained : fixed).push_back(each);
  for (NamedTensors* const all : {&trained, &fixed, &buffers}) {
    std::erase_if(*all, [&](const auto& each) { return not_finite_.contains(each.first); });
  }
  append(buffers, "", on_cpu(fixed, false));
  return [found_now = first_not_finite(on_cpu(trained, false), buffers), trained = on_cpu(trained, true),
          fixed = on_cpu(fixed, true), rank = comm_->rank()] {
    const std::string found = found_now.empty() ? first_not_finite(trained, fixed) : found_now;
    return found.empty() ? found : found + " on rank " + std::to_string(rank);
  };
}

bool Trainer::may_loss_change_parameters() const {
  if (loss_changes_parameters_.value_or(false)) return true;
  std::set<const c10::TensorImpl*> trained;
  for (const auto& [name, optimizer] : optimizers_) {
    for (const auto& group : optimizer->actual().param_groups()) {
      for (const at::Tensor& each : group.params()) {
        if (each.requires_grad()) trained.insert(each.unsafeGetTensorImpl());
      }
    }
  }
  const auto is_trained = [&](const at::Tensor& each) { return trained.contains(each.unsafeGetTensorImpl()); };
  return !std::ranges::all_of(parameters_of(*model_), is_trained);
}

void Trainer::refuse(const std::filesystem::path& path, std::int64_t iteration, const std::string& why) const {
  throw DataError("the checkpoint " + path.string() + " is not written, because " + why + " after iteration " +
                      std::to_string(iteration) +
                      ": training has diverged; resume from the one before with a lower learning rate, a longer "
                      "warm-up or clipping, and look for samples that are not numbers",
                  true);
}

void Trainer::save(const std::filesystem::path& path) {
  finish_save();
  const ActivityScope activity("writing a checkpoint");
  const auto begin = Clock::now();
  check_held(folder_.get(), *comm_);
  finish_steps();
  const bool is_own = std::filesystem::absolute(path) == checkpoint_path(out(), iteration_);
  if (is_own) on_root<SaveError>(*comm_, [this] { set_others_aside(iteration_); });
  try {
    save_checkpoint(*comm_, path, checkpoint());
  } catch (const SaveRefused& error) {
    refuse(path, iteration_, error.what());
  }
  note_saved(seconds_since(begin));
  if (!is_own) return;
  saved_iteration_ = iteration_;
  status_->saved(iteration_);
}

/// What the time limit must leave for a save.
void Trainer::note_saved(double seconds) {
  if (time_limit_) time_limit_->add_save(seconds);
}

void Trainer::save_in_background(std::function<void()> committed, std::function<void()> root_committed) {
  if (!is_root() || !root_committed) root_committed = [] {};
  if (saving_->is_under_way() && saved_iteration_ == iteration_) {
    when_committed_.push_back(std::move(committed));
    when_root_committed_.push_back(std::move(root_committed));
    return;
  }
  finish_save();
  if (saved_iteration_ == iteration_) {
    root_committed();
    return committed();
  }
  const auto begin = Clock::now();
  const ActivityScope activity("beginning a checkpoint");
  check_held(folder_.get(), *comm_);
  finish_steps();
  try {
    on_root<SaveError>(*comm_, [this] { set_others_aside(iteration_); });
    saving_->begin(*comm_, checkpoint_path(out(), iteration_), checkpoint());
    is_preparing_saves_ = false;
    if (may_loss_change_parameters()) saving_->finish_copy();  // (3)
    saved_iteration_ = iteration_;
    when_committed_.push_back(std::move(committed));
    when_root_committed_.push_back(std::move(root_committed));
  } catch (const SaveError& error) {
    warn_of_failed_save(error);
  }
  saving_times_.stalled_s += seconds_since(begin);
}

void Trainer::finish_copy() {
  const auto begin = Clock::now();
  saving_->finish_copy();
  saving_times_.stalled_s += seconds_since(begin);
}

void Trainer::finish_save() {
  while (saving_->is_under_way()) advance_save();
}

void Trainer::advance_save() {
  const ActivityScope activity("committing a checkpoint");
  const auto begin = Clock::now();
  bool is_over = true;
  try {
    is_over = saving_->advance([all = when_root_committed_] {
      for (const auto& each : all) each();
    });
    if (is_over) status_->saved(saved_iteration_);
  } catch (const SaveRefused& error) {
    const std::int64_t refused = std::exchange(saved_iteration_, kNotSaved);
    refuse(checkpoint_path(out(), refused), refused, error.what());
  } catch (const SaveError& error) {
    saved_iteration_ = kNotSaved;
    if (error.has_changed()) loss_changes_parameters_ = true;
    when_committed_.clear();
    warn_of_failed_save(error);
  }
  saving_times_.stalled_s += seconds_since(begin);
  if (!is_over) return;
  saving_times_.copied_s += saving_->copy_s();
  note_saved(saving_->save_s());
  when_root_committed_.clear();
  for (const auto& each : std::exchange(when_committed_, {})) each();
}

/// (2): says that the save failed; nothing is thrown.
void Trainer::warn_of_failed_save(const SaveError& error) const {
  const std::string rest =
      finished() ? "; the checkpoint before stays" : "; training goes on, and the checkpoint before stays";
  if (is_root()) log_warning(error.what() + rest);
}

}  // namespace mn
