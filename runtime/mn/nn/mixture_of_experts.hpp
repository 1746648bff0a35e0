/// A mixture of experts: a layer of many perceptrons (experts), of which each token uses only a few. The experts are
/// divided among the ranks (expert parallelism), so that no rank needs memory for all experts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <mn/comm/communicator.hpp>

namespace mn {

class KnownPiece;

/// The form of a MixtureOfExperts. Equal on all ranks.
struct MixtureOfExpertsOptions {
  std::int64_t width = 0;              ///< number of elements of a token
  std::int64_t hidden = 0;             ///< width of each expert's hidden layer
  std::int64_t experts = 8;            ///< number of experts
  std::int64_t experts_per_token = 2;  ///< experts that each token uses: the k of the top-k router
  /// In training an expert takes at most capacity_factor × tokens × experts_per_token / experts assignments, of all
  /// ranks together; an expert adds nothing to the tokens that exceed its capacity. 0: no limit. In evaluation mode
  /// there is no limit.
  double capacity_factor = 0;
  /// How many ranks hold the experts together; 0: all ranks. With fewer ranks, each group of so many successive ranks
  /// has a copy of all experts, and tokens stay in their group.
  int expert_parallel = 0;
  /// The number of experts on each rank of a group, which may be 0. Empty: as even as possible.
  std::vector<std::int64_t> experts_of_rank = {};
  at::ScalarType dtype = at::kFloat;  ///< dtype of the parameters
};

/// The result of a MixtureOfExperts. Add balance_loss and z_loss, each times a small factor, to the loss of the rank:
/// the mean over ranks, weighted by their tokens, is then the loss of one rank with all tokens.
struct MixtureOfExpertsOutput {
  at::Tensor output;        ///< like the input
  at::Tensor balance_loss;  ///< load-balancing loss, 1 if all experts are used equally; usual factor: 0.01
  at::Tensor z_loss;        ///< router z-loss, keeps the router's logits small; usual factor: 0.001
};

/// Computes, for each token x, Σ weight_e · down_proj_e · gelu(up_proj_e · x) over the experts_per_token experts e to
/// which the router gives the largest probabilities softmax(router · x). The router computes in float32. With one
/// expert for each token the weight is the expert's probability, otherwise the probabilities are normalized to a sum of
/// 1. The GELU is the tanh form.
///
/// forward() and its backward are collective over the communicator. Ranks may have different numbers of tokens, or
/// none. The rules of collectives.hpp about the weights of losses apply.
///
/// Parameters: router.weight [experts, width], up_proj [experts, hidden, width], down_proj [experts, width, hidden]. Of
/// the last two, each rank has only its experts: the tensors in parameters() have the whole shape, but no memory, so
/// programs must not read or write them. MultiNodeOptimizer, checkpoints, save_model() and load_model() work with them,
/// on any number of ranks. Give one optimizer all parameters of the layer: each expert's gradient is then the mean over
/// the losses of all ranks, as if one process had all tokens.
///
///   mn::MixtureOfExperts experts(comm, mn::MixtureOfExpertsOptions{.width = 128, .hidden = 512, .experts = 8});
///   const auto mixed = experts(x);
///   const auto loss = loss_of(x + mixed.output) + 0.01 * mixed.balance_loss + 0.001 * mixed.z_loss;
///
/// Cost: an allgather of a few numbers, and the messages of a RowExchange of experts_per_token rows for each token.
/// Sources: Switch Transformer (Fedus et al., arXiv:2101.03961): load-balancing loss, capacity; ST-MoE (Zoph et al.,
/// arXiv:2202.08906): z-loss; GShard (Lepikhin et al., arXiv:2006.16668).
class MixtureOfExpertsImpl : public torch::nn::Module {
 public:
  /// Collective: draws rank 0's random weights, on the communicator's device. Throws ArgumentError for a wrong form.
  MixtureOfExpertsImpl(std::shared_ptr<Communicator> comm, MixtureOfExpertsOptions options);
  ~MixtureOfExpertsImpl() override;

  /// Collective. `input` is [..., width].
  MixtureOfExpertsOutput forward(const at::Tensor& input);

  /// The experts stay on the communicator's device, in the dtype of the options: throws ArgumentError for any other.
  /// @{
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
  /// @}

 private:
  void check_alike() const;
  void check() const;
  void warn_if_untrained();
  void divide_experts();
  at::Tensor make_parameter(std::int64_t rows, std::int64_t columns);
  [[nodiscard]] at::Tensor elements_of(const at::Tensor& parameter) const;
  [[nodiscard]] at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& experts) const;

  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<Communicator> group_;     // ranks that hold one copy of the experts
  std::shared_ptr<Communicator> replicas_;  // ranks that hold the same experts
  MixtureOfExpertsOptions options_;
  std::int64_t first_ = 0, count_ = 0;  // this rank's experts: [first_, first_ + count_)
  at::Tensor owners_;                   // [experts] rank of the group that holds each expert
  torch::nn::Linear router_{nullptr};
  at::Tensor up_, down_;                                            // parameters without memory
  std::shared_ptr<bool> is_taken_ = std::make_shared<bool>(false);  // ParameterPiece::is_taken
  bool has_warned_ = false;
  std::vector<std::unique_ptr<KnownPiece>> known_;
};
/// libtorch's holder (a shared pointer) of a MixtureOfExpertsImpl.
TORCH_MODULE(MixtureOfExperts);

}  // namespace mn
