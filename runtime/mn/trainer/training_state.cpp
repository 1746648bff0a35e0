#include <mn/trainer/training_state.hpp>

#include <map>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/checkpoint/not_finite.hpp>
#include <mn/checkpoint/optimizer_archive.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/log.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>

namespace mn {
namespace {

using nlohmann::json;

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

/// Called at the first save. Logs a warning if the optimizer's save() stores nothing, because a warning at a resume
/// would come too late.
void warn_of_unsaved_state(const torch::optim::Optimizer& optimizer, const NamedTensors& state) {
  if (state.size() != 1 || state.front().first != kArchive) return;
  const at::Tensor& archive = state.front().second;
  if (!is_empty_archive({static_cast<const char*>(archive.const_data_ptr()), archive.nbytes()})) return;
  log_warning("checkpoints do not hold the state of the optimizer " + optimizer_kind(optimizer) +
              ", whose save() stores nothing: a resumed training goes on without it");
}

/// Adds tensors that are named PARAMETER, PARAMETER/FIELD or EXTENSION/PARAMETER. Of sharded parameters each rank adds
/// its pieces.
void add_of_parameters(Checkpoint& checkpoint, const std::string& prefix, const NamedTensors& tensors,
                       const NamedTensors& parameters) {
  std::map<std::string, ParameterPiece> pieces;
  for (const auto& [name, parameter] : parameters) {
    if (const auto piece = find_piece(parameter)) pieces.emplace(name, *piece);
  }
  for (const auto& [name, tensor] : tensors) {
    auto found = pieces.find(name.substr(0, name.rfind('/')));
    if (found == pieces.end()) found = pieces.find(name.substr(name.find('/') + 1));
    const bool is_whole = found != pieces.end() && tensor.is_same(found->second.whole);
    const bool is_piece = found != pieces.end() && (is_whole || tensor.sizes() == found->second.elements.sizes());
    if (!is_piece || found->second.whole.numel() == 0) {
      checkpoint.shared.emplace_back(prefix + name, tensor);
      continue;
    }
    const ParameterPiece& piece = found->second;
    if (piece.is_replica) continue;
    checkpoint.pieces.push_back({prefix + name, piece.whole.sizes().vec(), static_cast<std::uint64_t>(piece.begin),
                                 is_whole ? piece.elements : tensor});
  }
}

/// Returns the tensor with this rank's elements of a parameter.
at::Tensor elements_of(const at::Tensor& parameter) {
  const auto piece = find_piece(parameter);
  return piece ? piece->elements : parameter;
}

}  // namespace

json TrainingParts::samples_per_iteration() const {
  const json state = iterator.state();
  if (!state.is_object() || !state.contains("batchsize")) return {};
  return count_of(state.at("batchsize")) * comm.size() * accumulate;
}

TrainingState::TrainingState(const TrainingParts& parts) : parts_(parts) {
  for (const auto& [name, parameter] : named_parameters(parts_.model)) {
    if (holds_nan(elements_of(parameter), true)) not_finite_.insert(name);
  }
  for (const auto& [name, buffer] : named_buffers(parts_.model)) {
    if (holds_nan(buffer, false)) not_finite_.insert(name);
  }
}

json TrainingState::replicated_state() const {
  const TrainingCounters& counters = parts_.counters;
  json about = {
      {"iteration", counters.iteration},   {"epoch", counters.epoch}, {"epoch_detail", counters.epoch_detail},
      {"elapsed_s", counters.elapsed_s()}, {"seed", random_seed()},   {"iterator", storable(parts_.iterator.state())},
      {"optimizers", json::object()}};
  parts_.extensions.save(about, counters.iteration);
  about["samples_per_iteration"] = parts_.samples_per_iteration();
  about["frozen"] = {{"at_start", parts_.initially_frozen}, {"now", frozen_parameters(parts_.model)}};
  for (std::size_t i = 0; i < parts_.optimizers.size(); ++i) {
    const auto& [name, optimizer] = parts_.optimizers[i];
    about["optimizers"][name] = {{"kind", optimizer_kind(optimizer->actual())},
                                 {"settings", parts_.initial_settings[i]},
                                 {"groups", optimizer_groups(optimizer->actual(), parts_.model)},
                                 {"state", storable(optimizer->state())}};
  }
  parts_.observation.save(about, counters.iteration, parts_.bytes_sent());
  return about;
}

/// Collective: adds the model's buffers to the checkpoint. If they are equal on all ranks, they are stored once for all
/// ranks. Otherwise rank 0's buffers are stored for all ranks, and each rank whose buffers differ from rank 0's also
/// stores its own.
void TrainingState::add_buffers(Checkpoint& checkpoint) const {
  const NamedTensors buffers = named_buffers(parts_.model);
  const std::uint64_t own = hash_of(buffers);
  std::uint64_t roots = own;
  parts_.comm.bcast(std::span(&roots, 1));
  const bool same = same_on_all_ranks(own, parts_.comm);
  append(same ? checkpoint.shared : checkpoint.root, kModelPrefix, buffers);
  if (own != roots) append(checkpoint.own, kOwnBufferPrefix, buffers);
}

Checkpoint TrainingState::checkpoint() {
  Checkpoint checkpoint;
  json record = parts_.observation.rank_state();
  record["extensions"] = parts_.extensions.rank_state();
  const std::vector<json> records = parts_.comm.gather_obj(record);
  checkpoint.about = replicated_state();
  checkpoint.about["ranks"] = records;
  add_tensors(checkpoint);
  if (parts_.comm.rank() == 0 && !std::exchange(has_checked_optimizers_, true)) {
    for (const auto& [name, optimizer] : parts_.optimizers) {
      warn_of_unsaved_state(optimizer->actual(), optimizer_tensors(optimizer->actual(), parts_.model));
    }
  }
  checkpoint.objection = objection();
  return checkpoint;
}

Checkpoint TrainingState::tensors() const {
  Checkpoint checkpoint;
  add_tensors(checkpoint);
  // Undefined tensors are left out, because some extensions may not have made their tensors yet.
  for (NamedTensors* const all : {&checkpoint.shared, &checkpoint.root}) {
    std::erase_if(*all, [](const auto& each) { return !each.second.defined(); });
  }
  return checkpoint;
}

void TrainingState::add_tensors(Checkpoint& checkpoint) const {
  const NamedTensors parameters = named_parameters(parts_.model);
  add_of_parameters(checkpoint, kModelPrefix, parameters, parameters);
  checkpoint.own = random_state(parts_.comm.device());
  add_buffers(checkpoint);
  for (const auto& [name, optimizer] : parts_.optimizers) {
    const bool own = optimizer->local();
    const NamedTensors state = optimizer_tensors(optimizer->actual(), parts_.model);
    if (own) append(checkpoint.own, own_state_prefix(name), state);
    if (!own) add_of_parameters(checkpoint, state_prefix(name), state, parameters);
    append(checkpoint.own, own_prefix(name), optimizer->rank_state());
  }
  add_of_parameters(checkpoint, kExtensionPrefix, parts_.extensions.tensors(/*replicated=*/true), parameters);
  append(checkpoint.root, kExtensionPrefix, parts_.extensions.tensors(/*replicated=*/false));
  append(checkpoint.own, kExtensionPrefix, parts_.extensions.rank_tensors());
}

/// Returns why the training must not be saved, such as "weight holds NaN or infinity on rank 1". Empty if it may be
/// saved. Buffers and frozen parameters may hold infinities, as masks do. A tensor that was not finite at the start of
/// the training is no reason either.
std::string TrainingState::objection() const {
  std::string found;
  const auto check = [&](const std::string& name, const at::Tensor& tensor, bool or_infinity) {
    if (!found.empty() || not_finite_.contains(name) || !holds_nan(tensor, or_infinity)) return;
    found = name + (or_infinity ? " holds NaN or infinity" : " holds NaN") + " on rank " +
            std::to_string(parts_.comm.rank());
  };
  for (const auto& [name, parameter] : named_parameters(parts_.model))
    check(name, elements_of(parameter), parameter.requires_grad());
  for (const auto& [name, buffer] : named_buffers(parts_.model)) check(name, buffer, false);
  return found;
}

}  // namespace mn
