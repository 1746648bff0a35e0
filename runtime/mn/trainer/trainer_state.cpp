// How training resumes from a checkpoint; trainer_save.cpp says what that holds.
//
// (1) With as many ranks as before each rank continues with its own tensors: bit for bit as without an interruption.
// (2) With another number of ranks, sums over samples go to rank 0, and buffers and the optimizer's state are rank 0's.
//     Random numbers are seeded from the old seed, the iteration and the rank; what optimizers kept starts empty.
// (3) The optimizer's kind must match; the model must match in names, shapes and dtypes, in whatever order.
// (4) Tensors go from the file into the model's own; the optimizer's become its state. Nothing is held twice.
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/state_names.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// Those whose names begin with `prefix`, without it.
NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

TensorForms forms_of(const NamedTensors& tensors) {
  TensorForms forms;
  for (const auto& [name, tensor] : tensors) forms[name] = {tensor.scalar_type(), tensor.sizes().vec()};
  return forms;
}

json groups_of(const json& saved) { return saved.value("groups", json::array()); }

}  // namespace

bool Trainer::resume(const std::string& from) {
  const auto checkpoint = CheckpointReader::open(*comm_, from, out());
  if (!checkpoint) return false;
  const std::string source = "the checkpoint (" + from + ")";
  try {
    restore_model(*checkpoint, source);
    restore(*checkpoint);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();  // libtorch appends a stack trace
    throw DataError("mismatch between " + source + " and this job: " + what.substr(0, what.find('\n')), true);
  }
  resumed_from_ = from == "auto" ? std::filesystem::path() : std::filesystem::absolute(from);
  std::int64_t continued = is_root() ? iteration_in(out(), checkpoint->path()).value_or(-1) : 0;
  comm_->bcast(std::span(&continued, 1));
  is_from_elsewhere_ = continued < 0;
  continued_ = is_from_elsewhere_ ? std::nullopt : std::optional(continued);
  has_set_aside_ = false;
  if (is_root()) {
    log_info("resumed after iteration " + std::to_string(iteration_) + ", epoch " + std::to_string(epoch_));
  }
  return true;
}

void Trainer::restore_model(CheckpointReader& checkpoint, const std::string& source) {
  const NamedTensors absent = check_fits(*model_, checkpoint.shared(kModelPrefix), source);
  const at::NoGradGuard no_grad;
  std::set<std::string> absent_names;
  for (const auto& [name, tensor] : absent) {
    at::Tensor(tensor).zero_();
    absent_names.insert(name);
  }
  NamedTensors tensors = named_tensors(*model_);
  std::erase_if(tensors, [&](const auto& named) { return absent_names.contains(named.first); });
  checkpoint.read(kModelPrefix, tensors);
  restore_frozen(checkpoint.about().value("frozen", json()));
}

/// What this program freezes when it begins wins over the checkpoint, if the checkpoint's program had frozen something
/// else; what extensions have frozen or unfrozen since is restored.
void Trainer::restore_frozen(const json& saved) {
  if (saved.is_null()) return;  // an earlier version
  const auto then = saved.at("now").get<std::set<std::string>>();
  const bool is_same_program = saved.at("at_start").get<std::vector<std::string>>() == frozen_;
  std::vector<std::string> changed;
  for (const auto& [name, parameter] : named_parameters(*model_)) {
    if (then.contains(name) != parameter.requires_grad()) continue;
    changed.push_back(name);
    if (is_same_program) at::Tensor(parameter).set_requires_grad(!then.contains(name));
  }
  if (changed.empty() || !is_root()) return;
  const std::string which = std::to_string(changed.size()) + (changed.size() == 1 ? " parameter" : " parameters") +
                            " (" + changed.front() + (changed.size() == 1 ? ")" : ", …)");
  log_info(is_same_program ? "frozen or not as the checkpoint's program had made it by then: " + which
                           : "frozen or not as this program says, and not as in the checkpoint: " + which);
}

void Trainer::restore_optimizers(CheckpointReader& checkpoint) {
  if (!checkpoint.about().contains("optimizers")) {
    throw DataError(
        "the checkpoint is of an earlier version of mn, which alone can resume from it; its weights serve "
        "as a start here (--initmodel, load_model)",
        true);
  }
  const json& all = checkpoint.about().at("optimizers");
  for (const NamedOptimizer& each : optimizers_) {
    if (all.size() != optimizers_.size() || !all.contains(each.name)) {
      const std::string names = join(all.items(), ", ", [](const auto& item) { return item.key(); });
      throw DataError("the checkpoint is of a job with other optimizers: it has " + names + ", and this job has " +
                          std::to_string(optimizers_.size()) + " with " + each.name,
                      true);
    }
    restore_optimizer(each, all.at(each.name), checkpoint);
  }
}

void Trainer::restore_optimizer(const NamedOptimizer& each, const json& saved, CheckpointReader& checkpoint) {
  torch::optim::Optimizer& actual = each.optimizer->actual();
  const std::string kind = optimizer_kind(actual);
  const std::string kind_then = saved_kind(saved.at("kind").get<std::string>());
  if (kind_then != kind) {
    throw DataError("the checkpoint is of a job with another optimizer: it has " + kind_then + ", this job " + kind,
                    true);
  }
  std::string prefix = state_prefix(each.name);
  TensorForms forms = checkpoint.shared(prefix);
  if (forms.empty()) {  // each rank had another
    prefix = own_tensor_name(0, own_state_prefix(each.name));
    forms = checkpoint.shared(prefix);
  }
  OptimizerLoad load(actual, *model_, forms, groups_of(saved));
  checkpoint.read(prefix, load.tensors());
  load.finish(comm_->device());
  each.optimizer->load_state(from_storable(saved.at("state"), "the checkpoint's state of the optimizer"));
  const auto i = static_cast<std::size_t>(&each - optimizers_.data());
  for (const std::string& change : apply_changed_settings(actual, saved.at("settings"), json::parse(settings_[i]))) {
    if (is_root()) log_info("resumed with another setting of the optimizer than the checkpoint's: " + change);
  }
}

void Trainer::restore_extensions(CheckpointReader& checkpoint) {
  NamedTensors tensors;
  for (const auto& [name, form] : checkpoint.shared(kExtensionPrefix)) {
    tensors.emplace_back(name, at::empty(form.shape, form.dtype));
  }
  checkpoint.read(kExtensionPrefix, tensors);
  extensions_->set_tensors(std::move(tensors));
}

void Trainer::restore(CheckpointReader& checkpoint) {
  restore_optimizers(checkpoint);
  restore_replicated(checkpoint.about());
  restore_extensions(checkpoint);
  const bool same_ranks = checkpoint.ranks() == comm_->size();
  restore_observation(checkpoint.about().at("ranks"), same_ranks);
  if (same_ranks) {
    restore_rank(checkpoint.own(), checkpoint.about().at("optimizers"));
  } else {
    restart_rank(whole_number<std::uint64_t>(checkpoint.about().at("seed")));
  }
}

void Trainer::restore_replicated(const json& about) {
  const json then = about.value("samples_per_iteration", json()), now = samples_per_iteration();
  const std::size_t ranks = about.at("ranks").size();
  iterator_->load_state(from_storable(about.at("iterator"), "the checkpoint's state of the iterator"));
  if (is_root()) tell_of_other_size(ranks, then, now);
  iteration_ = count_of(about.at("iteration"));
  epoch_ = count_of(about.at("epoch"));
  epoch_detail_ = about.at("epoch_detail").get<double>();
  earlier_s_ = about.at("elapsed_s").get<double>();
  observation_->load(about);
  extensions_->load(about);
}

/// Of this job; null where the iterator does not say it.
json Trainer::samples_per_iteration() const {
  const json state = iterator_->state();
  if (!state.is_object() || !state.contains("batchsize")) return {};
  return count_of(state.at("batchsize")) * comm_->size() * options_.accumulate;
}

/// Schedules and rates that suited the checkpoint's may not suit this job's.
void Trainer::tell_of_other_size(std::size_t ranks, const json& then, const json& now) const {
  const auto own = static_cast<std::size_t>(comm_->size());
  const bool knows = then.is_number() && now.is_number();
  const bool differs = knows && then != now;
  if (ranks == own && !differs) return;
  std::string text = ranks == own ? "the checkpoint is of as many ranks"
                                  : "the checkpoint is of " + std::to_string(ranks) +
                                        (ranks == 1 ? " rank" : " ranks") + ", this job has " + std::to_string(own);
  if (differs) text += "; an iteration takes " + now.dump() + " samples where it took " + then.dump();
  if (knows && !differs) text += "; an iteration takes " + now.dump() + " samples, as before";
  log_info(text);
}

void Trainer::restore_observation(const json& records, bool same_ranks) {
  observation_->clear_rank_state();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool is_own = same_ranks ? i == static_cast<std::size_t>(comm_->rank()) : is_root();
    if (is_own) observation_->merge_rank_state(records[i]);
  }
}

void Trainer::restart_rank(std::uint64_t seed) {
  const std::string key = std::to_string(seed) + " " + std::to_string(iteration_) + " " + std::to_string(comm_->rank());
  seed_random(hash64(key), comm_->device());
  const bool kept = std::ranges::any_of(optimizers_, [](const NamedOptimizer& each) {
    return each.optimizer->local() || !each.optimizer->rank_state().empty();
  });
  if (kept && is_root()) {
    log_info("the number of ranks has changed: what each rank's optimizer kept for itself starts empty");
  }
}

void Trainer::restore_rank(const NamedTensors& tensors, const json& optimizers) {
  const std::map<std::string, at::Tensor> own(tensors.begin(), tensors.end());
  const at::NoGradGuard no_grad;
  for (auto& [name, buffer] : named_buffers(*model_)) {
    if (const auto found = own.find(kOwnBufferPrefix + name); found != own.end()) {
      at::Tensor(buffer).copy_(found->second);
    }
  }
  set_random_state(tensors, comm_->device());
  for (const auto& [name, optimizer] : optimizers_) {
    optimizer->load_rank_state(with_prefix(tensors, own_prefix(name)));
    const NamedTensors state = with_prefix(tensors, own_state_prefix(name));
    if (!optimizer->local() || state.empty()) continue;
    OptimizerLoad load(optimizer->actual(), *model_, forms_of(state), groups_of(optimizers.at(name)));
    const std::map<std::string, at::Tensor> by_name(state.begin(), state.end());
    for (const auto& [key, tensor] : load.tensors()) at::Tensor(tensor).copy_(by_name.at(key));
    load.finish(comm_->device());
  }
}

}  // namespace mn
