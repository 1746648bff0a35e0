// Restores a training from a checkpoint (training_state.hpp).
#include <mn/trainer/training_state.hpp>

#include <algorithm>
#include <map>
#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/optimizer_settings.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extension_list.hpp>
#include <mn/trainer/observation.hpp>

namespace mn {
namespace {

using nlohmann::json;

TensorForms forms_of(const NamedTensors& tensors) {
  TensorForms forms;
  for (const auto& [name, tensor] : tensors) forms[name] = {tensor.scalar_type(), tensor.sizes().vec()};
  return forms;
}

/// Restores a training from one checkpoint, part by part.
class Restore {
 public:
  Restore(TrainingParts& parts, CheckpointReader& checkpoint) : parts_(parts), checkpoint_(checkpoint) {}

  void model(const std::string& source) {
    const NamedTensors absent = check_fits(parts_.model, checkpoint_.shared(kModelPrefix), source);
    const at::NoGradGuard no_grad;
    std::set<std::string> absent_names;
    for (const auto& [name, tensor] : absent) {
      at::Tensor(tensor).zero_();
      absent_names.insert(name);
    }
    NamedTensors tensors = named_tensors(parts_.model);
    std::erase_if(tensors, [&](const auto& named) { return absent_names.contains(named.first); });
    checkpoint_.read(kModelPrefix, tensors);
    frozen_parameters(checkpoint_.about().at("frozen"));
  }

  void optimizers() {
    const json& all = checkpoint_.about().at("optimizers");
    const auto& own = parts_.optimizers;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (all.size() != own.size() || !all.contains(own[i].name)) {
        const std::string names = join(all.items(), ", ", [](const auto& item) { return item.key(); });
        throw DataError("the checkpoint is of a job with other optimizers: it has " + names + ", and this job has " +
                            std::to_string(own.size()) + " with " + own[i].name,
                        true);
      }
      one_optimizer(i, all.at(own[i].name));
    }
  }

  void replicated_state() {
    const json& about = checkpoint_.about();
    const json now = parts_.samples_per_iteration();
    parts_.iterator.load_state(from_storable(about.at("iterator"), "the checkpoint's state of the iterator"));
    if (is_root()) log_other_size(about.at("samples_per_iteration"), now);
    TrainingCounters& counters = parts_.counters;
    counters.iteration = count_of(about.at("iteration"));
    counters.epoch = count_of(about.at("epoch"));
    counters.epoch_detail = about.at("epoch_detail").get<double>();
    counters.earlier_s = about.at("elapsed_s").get<double>();
    parts_.observation.load(about);
  }

  void rank_state() {
    observation();
    own_ = checkpoint_.own();
    has_same_ranks() ? own_tensors() : restart_random_numbers();
  }

  /// Called last, because the state of an extension may depend on every other restored state.
  void extensions() {
    ExtensionList::Restored restored{
        checkpoint_.about(), extension_tensors(), with_prefix(own_, kExtensionPrefix), {}, std::move(observed_)};
    for (std::int64_t rank = 0; !has_same_ranks() && rank < checkpoint_.ranks(); ++rank) {
      restored.other_ranks.push_back(read_all(own_tensor_name(static_cast<std::size_t>(rank), kExtensionPrefix)));
    }
    parts_.extensions.load(std::move(restored));
  }

 private:
  [[nodiscard]] bool is_root() const { return parts_.comm.rank() == 0; }
  [[nodiscard]] bool has_same_ranks() const { return checkpoint_.ranks() == parts_.comm.size(); }

  /// Reads the tensors whose names begin with `prefix`. Returns them on the CPU, with names without `prefix`.
  NamedTensors read_all(const std::string& prefix) {
    NamedTensors tensors;
    for (const auto& [name, form] : checkpoint_.shared(prefix)) {
      tensors.emplace_back(name, at::empty(form.shape, form.dtype));
    }
    checkpoint_.read(prefix, tensors);
    return tensors;
  }

  /// Reads the tensors of extensions. Of a tensor EXTENSION/PARAMETER with the shape of a sharded parameter, each rank
  /// reads its piece.
  NamedTensors extension_tensors() {
    std::map<std::string, ParameterPiece> sharded;
    for (const auto& [name, parameter] : named_parameters(parts_.model)) {
      if (const auto piece = find_piece(parameter)) sharded.emplace(name, *piece);
    }
    NamedTensors wholes, all;
    std::vector<TensorPiece> pieces;
    for (const auto& [name, form] : checkpoint_.shared(kExtensionPrefix)) {
      const auto found = sharded.find(name.substr(name.find('/') + 1));
      const bool in_pieces = found != sharded.end() && found->second.whole.sizes() == at::IntArrayRef(form.shape);
      const at::Tensor tensor =
          in_pieces ? at::empty(found->second.elements.sizes(), form.dtype) : at::empty(form.shape, form.dtype);
      all.emplace_back(name, tensor);
      if (!in_pieces) wholes.emplace_back(name, tensor);
      if (in_pieces) {
        pieces.push_back({name, form.shape, static_cast<std::uint64_t>(found->second.begin), tensor});
      }
    }
    checkpoint_.read(kExtensionPrefix, wholes);
    checkpoint_.read(kExtensionPrefix, pieces);
    return all;
  }

  /// Freezes the same parameters as in the checkpoint, but only if both programs began with the same frozen parameters.
  void frozen_parameters(const json& saved) {
    const auto then = saved.at("now").get<std::set<std::string>>();
    const bool is_same_program = saved.at("at_start").get<std::vector<std::string>>() == parts_.initially_frozen;
    std::vector<std::string> changed;
    for (const auto& [name, parameter] : named_parameters(parts_.model)) {
      if (then.contains(name) != parameter.requires_grad()) continue;
      changed.push_back(name);
      if (is_same_program) at::Tensor(parameter).set_requires_grad(!then.contains(name));
    }
    if (changed.empty() || !is_root()) return;
    const std::string which = std::to_string(changed.size()) + (changed.size() == 1 ? " parameter" : " parameters") +
                              " (" + changed.front() + (changed.size() == 1 ? ")" : ", …)");
    log_info(which + (is_same_program
                          ? " now frozen or trained as in the checkpoint, not as at the start of the program"
                          : " frozen or trained as this program says, not as in the checkpoint"));
  }

  void one_optimizer(std::size_t index, const json& saved) {
    const auto& [name, optimizer] = parts_.optimizers[index];
    torch::optim::Optimizer& actual = optimizer->actual();
    const std::string kind = optimizer_kind(actual), kind_then = saved.at("kind").get<std::string>();
    if (kind_then != kind) {
      throw DataError("the checkpoint is of a job with another optimizer: it has " + kind_then + ", this job " + kind,
                      true);
    }
    std::string prefix = state_prefix(name);
    TensorForms forms = checkpoint_.shared(prefix);
    if (forms.empty()) {  // the state differed from rank to rank: all ranks take rank 0's state
      prefix = own_tensor_name(0, own_state_prefix(name));
      forms = checkpoint_.shared(prefix);
    }
    OptimizerLoad load(actual, parts_.model, forms, saved.at("groups"));
    checkpoint_.read(prefix, load.tensors());
    checkpoint_.read(prefix, load.pieces());
    load.finish(parts_.comm.device());
    optimizer->load_state(from_storable(saved.at("state"), "the checkpoint's state of the optimizer"));
    for (const auto& change : apply_changed_settings(actual, parameter_names(actual, parts_.model), saved.at("groups"),
                                                     saved.at("settings"), parts_.initial_settings[index])) {
      if (is_root()) log_info("resumed with another setting of the optimizer than the checkpoint's: " + change);
    }
  }

  /// If the number of ranks or the number of samples per iteration has changed, logs this, because learning rates may
  /// no longer suit.
  void log_other_size(const json& then, const json& now) const {
    const std::int64_t ranks = checkpoint_.ranks(), own = parts_.comm.size();
    const bool are_known = then.is_number() && now.is_number();
    const bool differs = are_known && then != now;
    if (ranks == own && !differs) return;
    std::string text = ranks == own ? "the checkpoint is of as many ranks"
                                    : "the checkpoint is of " + std::to_string(ranks) +
                                          (ranks == 1 ? " rank" : " ranks") + ", this job has " + std::to_string(own);
    if (differs) text += "; an iteration takes " + now.dump() + " samples where it took " + then.dump();
    if (are_known && !differs) text += "; an iteration takes " + now.dump() + " samples, as before";
    log_info(text);
  }

  /// If the number of ranks is unchanged, each rank takes its own sums over samples. Otherwise rank 0 takes the sums of
  /// all ranks (invariant 2).
  void observation() {
    const json& records = checkpoint_.about().at("ranks");
    parts_.observation.clear_rank_state();
    for (std::size_t i = 0; i < records.size(); ++i) {
      const bool is_own = has_same_ranks() ? i == static_cast<std::size_t>(parts_.comm.rank()) : is_root();
      if (!is_own) continue;
      parts_.observation.merge_rank_state(records[i]);
      observed_.push_back(records[i].value("extensions", json::object()));
    }
  }

  /// Invariant 1: if the number of ranks is unchanged, each rank takes its own tensors.
  void own_tensors() {
    const std::map<std::string, at::Tensor> own(own_.begin(), own_.end());
    const at::NoGradGuard no_grad;
    for (auto& [name, buffer] : named_buffers(parts_.model)) {
      if (const auto found = own.find(kOwnBufferPrefix + name); found != own.end()) {
        at::Tensor(buffer).copy_(found->second);
      }
    }
    set_random_state(own_, parts_.comm.device());
    for (const auto& [name, optimizer] : parts_.optimizers) {
      optimizer->load_rank_state(with_prefix(own_, own_prefix(name)));
      const NamedTensors state = with_prefix(own_, own_state_prefix(name));
      if (!optimizer->local() || state.empty()) continue;
      const json& groups = checkpoint_.about().at("optimizers").at(name).at("groups");
      OptimizerLoad load(optimizer->actual(), parts_.model, forms_of(state), groups);
      const std::map<std::string, at::Tensor> by_name(state.begin(), state.end());
      for (const auto& [key, tensor] : load.tensors()) at::Tensor(tensor).copy_(by_name.at(key));
      load.finish(parts_.comm.device());
    }
  }

  /// Invariant 2: the number of ranks has changed, so random numbers are seeded from the old seed, the iteration and
  /// the rank.
  void restart_random_numbers() {
    const auto seed = whole_number<std::uint64_t>(checkpoint_.about().at("seed"));
    const std::string key = std::to_string(seed) + " " + std::to_string(parts_.counters.iteration) + " " +
                            std::to_string(parts_.comm.rank());
    seed_random(hash64(key), parts_.comm.device());
    const bool kept = std::ranges::any_of(parts_.optimizers, [](const NamedOptimizer& each) {
      return each.optimizer->local() || !each.optimizer->rank_state().empty();
    });
    if (kept && is_root()) {
      log_info("the number of ranks has changed: what each rank's optimizer kept for itself starts empty");
    }
  }

  TrainingParts& parts_;
  CheckpointReader& checkpoint_;
  NamedTensors own_;            // this rank's own tensors; empty if the number of ranks has changed
  std::vector<json> observed_;  // what each extension has observed, for this rank
};

}  // namespace

void restore_training(TrainingParts& parts, CheckpointReader& checkpoint) {
  const std::string source = "the checkpoint " + checkpoint.path().string();
  try {
    parts.extensions.check(checkpoint.about(), source);
    Restore restore(parts, checkpoint);
    restore.model(source);
    restore.optimizers();
    restore.replicated_state();
    restore.rank_state();
    restore.extensions();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError("mismatch between " + source + " and this job: " + first_line_of(error.what()), true);
  }
}

}  // namespace mn
