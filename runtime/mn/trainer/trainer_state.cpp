// What a checkpoint holds of a Trainer, and how training resumes from it.
//
// "about" has what is the same on all ranks, "model", "optimizer" and "extensions" rank 0's. A rank's section has its
// random numbers, its buffers (batch normalization's statistics) where they differ from rank 0's, and what its
// optimizer keeps for itself.
// (1) With as many ranks as before each rank continues with its own section: bit for bit as without an interruption.
// (2) With another number of ranks, sums over samples go to rank 0, and buffers and the optimizer's state are rank 0's.
//     Random numbers are seeded from the old seed, the iteration and the rank; what optimizers kept starts empty.
// (3) The optimizer's kind must match; the model must match in names, shapes and dtypes.
// (4) What is not finite is not saved.
// Cost of a checkpoint: rank 0 copies and writes the model and the optimizer's state, and writes the ranks' sections.
#include <algorithm>
#include <cstring>
#include <map>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_archive.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>
#include <mn/trainer/run_status.hpp>
#include <mn/trainer/time_limit.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::string_view kBufferPrefix = "buffer.";
const std::string kArchivePrefix = "optimizer_archive.";  // of a rank's own

/// A hash of what a multi-node optimizer keeps for each rank.
std::string own_prefix(const std::string& optimizer) { return "optimizer." + optimizer + "."; }

at::Tensor tensor_of(const std::string& bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Those whose names begin with `prefix`, without it.
NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

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

NamedTensors prefixed_buffers(const torch::nn::Module& model) {
  NamedTensors buffers = named_buffers(model);
  for (auto& [name, buffer] : buffers) name.insert(0, kBufferPrefix);
  return buffers;
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
                                 {"state", optimizer->state()}};
  }
  observation_->save(about);
  return about;
}

std::string Trainer::rank_tensors() const {
  const NamedTensors buffers = prefixed_buffers(*model_);
  const std::uint64_t own = hash64(to_safetensors(buffers));
  std::uint64_t roots = own;
  comm_->bcast(std::span(&roots, 1));
  NamedTensors tensors = random_state(comm_->device());
  if (own != roots) tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  for (const auto& [name, optimizer] : optimizers_) {
    for (const auto& [key, tensor] : optimizer->rank_state()) tensors.emplace_back(own_prefix(name) + key, tensor);
    if (optimizer->local()) {
      tensors.emplace_back(kArchivePrefix + name, tensor_of(optimizer_bytes(optimizer->actual())));
    }
  }
  return to_safetensors(tensors);
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
  const ActivityScope activity("writing a checkpoint", ActivityScope::kLongPatience);
  const auto begin = Clock::now();
  finish_steps();
  check_finite(path);
  Checkpoint checkpoint;
  checkpoint.own = rank_tensors();
  const std::vector<json> records = comm_->gather_obj(observation_->rank_state());
  checkpoint.about = replicated_state();
  checkpoint.about["ranks"] = records;
  const auto serialize = [&] {
    checkpoint.model = to_safetensors(named_tensors(*model_));
    checkpoint.optimizer = optimizer_archives();
    checkpoint.extensions = to_safetensors(extensions_->tensors());
  };
  on_root<DataError>(*comm_, serialize, true);
  save_checkpoint(*comm_, path, checkpoint);
  if (time_limit_) time_limit_->add_save(seconds_since(begin));
  if (path != checkpoint_path(out(), iteration_)) return;
  saved_iteration_ = iteration_;
  status_->saved(iteration_);
}

bool Trainer::resume(const std::string& from) {
  const std::optional<Checkpoint> checkpoint = load_checkpoint(*comm_, from, out());
  if (!checkpoint) return false;
  const std::string source = "the checkpoint (" + from + ")";
  try {
    copy_into(*model_, from_safetensors(checkpoint->model, source), source);
    restore(*checkpoint);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();  // libtorch appends a stack trace
    throw DataError("mismatch between " + source + " and this job: " + what.substr(0, what.find('\n')), true);
  }
  if (is_root()) {
    log_info("resumed after iteration " + std::to_string(iteration_) + ", epoch " + std::to_string(epoch_));
  }
  return true;
}

std::string Trainer::optimizer_archives() const {
  NamedTensors archives;
  for (const auto& [name, optimizer] : optimizers_) {
    archives.emplace_back(name, tensor_of(optimizer_bytes(optimizer->actual())));
  }
  return to_safetensors(archives);
}

void Trainer::restore_optimizers(const Checkpoint& checkpoint) {
  if (!checkpoint.about.contains("optimizers")) {
    throw DataError(
        "the checkpoint is of an earlier version of mn, which alone can resume from it; its weights serve "
        "as a start here (--initmodel, load_model)",
        true);
  }
  const json& all = checkpoint.about.at("optimizers");
  const NamedTensors archives = from_safetensors(checkpoint.optimizer, "the checkpoint");
  for (const NamedOptimizer& each : optimizers_) {
    const auto archive = std::ranges::find(archives, each.name, &NamedTensors::value_type::first);
    if (all.size() != optimizers_.size() || !all.contains(each.name) || archive == archives.end()) {
      std::string names;
      for (const auto& [name, saved] : all.items()) names += (names.empty() ? "" : ", ") + name;
      throw DataError("the checkpoint is of a job with other optimizers: it has " + names + ", and this job has " +
                          std::to_string(optimizers_.size()) + " with " + each.name,
                      true);
    }
    restore_optimizer(each, all.at(each.name), bytes_of(archive->second));
  }
}

void Trainer::restore_optimizer(const NamedOptimizer& each, const json& saved, std::string_view archive) {
  torch::optim::Optimizer& actual = each.optimizer->actual();
  const std::string kind = optimizer_kind(actual);
  const std::string kind_then = saved_kind(saved.at("kind").get<std::string>());
  if (kind_then != kind) {
    throw DataError("the checkpoint is of a job with another optimizer: it has " + kind_then + ", this job " + kind,
                    true);
  }
  load_optimizer(actual, archive, comm_->device());
  each.optimizer->load_state(saved.at("state"));
  const auto i = static_cast<std::size_t>(&each - optimizers_.data());
  for (const std::string& change : apply_changed_settings(actual, saved.at("settings"), json::parse(settings_[i]))) {
    if (is_root()) log_info("resumed with another setting of the optimizer than the checkpoint's: " + change);
  }
}

void Trainer::restore(const Checkpoint& checkpoint) {
  restore_optimizers(checkpoint);
  restore_replicated(checkpoint.about);
  extensions_->set_tensors(from_safetensors(checkpoint.extensions, "the checkpoint"));
  const bool same_ranks = checkpoint.ranks == comm_->size();
  restore_observation(checkpoint.about.at("ranks"), same_ranks);
  if (same_ranks) {
    restore_rank(checkpoint.own);
  } else {
    restart_rank(whole_number<std::uint64_t>(checkpoint.about.at("seed")));
  }
}

void Trainer::restore_replicated(const json& about) {
  iterator_->load_state(about.at("iterator"));
  iteration_ = whole_number<std::int64_t>(about.at("iteration"));
  epoch_ = whole_number<std::int64_t>(about.at("epoch"));
  epoch_detail_ = about.at("epoch_detail").get<double>();
  earlier_s_ = about.at("elapsed_s").get<double>();
  observation_->load(about);
  extensions_->set_states(about.at("extensions"));
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

void Trainer::restore_rank(const std::string& section) {
  const NamedTensors tensors = from_safetensors(section, "the checkpoint");
  const std::map<std::string, at::Tensor> own(tensors.begin(), tensors.end());
  const at::NoGradGuard no_grad;
  for (auto& [name, buffer] : prefixed_buffers(*model_)) {
    if (const auto found = own.find(name); found != own.end()) buffer.copy_(found->second);
  }
  set_random_state(tensors, comm_->device());
  for (const auto& [name, optimizer] : optimizers_) {
    optimizer->load_rank_state(with_prefix(tensors, own_prefix(name)));
    if (const auto found = own.find(kArchivePrefix + name); optimizer->local() && found != own.end()) {
      load_optimizer(optimizer->actual(), bytes_of(found->second), comm_->device());
    }
  }
}

}  // namespace mn
