// The experts of a MultiNodeOptimizer: parameters of which each rank holds and updates a piece.
#include <mn/trainer/optimizer.hpp>

#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include <mn/core/error.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/trainer/parameter_set.hpp>

namespace mn {
namespace {

bool is_expert(const at::Tensor& parameter) {
  const auto piece = find_piece(parameter);
  return piece && piece->replicas;
}

}  // namespace

/// Takes the experts out of `reduced`. The wrapped optimizer then updates this rank's pieces of all experts, also of
/// frozen experts.
void MultiNodeOptimizer::take_experts(std::vector<at::Tensor>& reduced) {
  std::vector<at::Tensor> experts = set_->all();
  std::erase_if(experts, [](const at::Tensor& parameter) { return !is_expert(parameter); });
  experts_.clear();
  if (experts.empty()) return;
  const char* const excluded = options_.shard.what != Shard::kNone ? "sharding (--shard)"
                               : options_.double_buffering         ? "double buffering (--double-buffering)"
                               : options_.local_steps > 1          ? "local steps (--local-steps)"
                               : options_.loss_ranks               ? "OptimizerOptions::loss_ranks"
                                                                   : nullptr;
  if (excluded != nullptr) throw UsageError(std::string("experts and ") + excluded + " exclude each other");
  std::erase_if(reduced, is_expert);
  for (const at::Tensor& parameter : experts) {
    const ParameterPiece piece = *find_piece(parameter);
    const int ranks = piece.ranks->size() * piece.replicas->size();
    if (ranks != comm_->size()) {
      throw UsageError("experts of a layer on " + std::to_string(ranks) +
                       " ranks can't be updated by an optimizer on " + std::to_string(comm_->size()) +
                       ": make both with one communicator");
    }
    *piece.is_taken = true;
    experts_.push_back(piece.elements);
    set_->replace(parameter, experts_.back());
  }
}

/// Collective if groups of ranks hold copies of the experts. Backward has sent the gradients of all tokens of a group
/// to the tokens' experts. Therefore the gradient of a piece is already the sum over the losses of the group's ranks,
/// and the sum over the copies is that of all ranks. All ranks run the same layers, so all copies have a gradient or
/// none.
void MultiNodeOptimizer::reduce_experts(double factor) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& piece : experts_) {
    at::Tensor& gradient = piece.mutable_grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    gradient.mul_(exact_factor(factor));
    const auto known = find_piece(piece);
    if (!known) throw UsageError("a MixtureOfExperts ended before the optimizer that updates it");
    Communicator& replicas = *known->replicas;
    if (replicas.size() > 1) wait("wait for gradients", [&] { ordered_allreduce(replicas, gradient); });
  }
}

}  // namespace mn
