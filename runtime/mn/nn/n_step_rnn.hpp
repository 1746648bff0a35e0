/// ChainerMN's create_multi_node_n_step_rnn: a recurrent network over sequences whose parts lie on several ranks.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// What a MultiNodeNStepRnn returns.
template <class Sequence>
struct NStepResult {
  Sequence output;                 ///< the hidden states of all steps
  std::vector<at::Tensor> states;  ///< h, and for an LSTM c, after the last step
  at::Tensor delegate;             ///< of mn::send(); undefined without rank_out
};

/// A torch::nn::LSTM, GRU or RNN whose first state comes from one rank, and whose last state goes to another rank.
/// Backward sends the states' gradients in the opposite direction.
///
///     auto rnn = mn::create_multi_node_n_step_rnn(torch::nn::LSTM(10, 20), comm, before, next);  // ranks or nullopt
///     const auto [output, states, delegate] = rnn->forward(part_of_sequence);
///     mn::pseudo_connect(delegate, loss_of(output)).backward();
///
/// Neighboring ranks need equal numbers of layers and hidden sizes, and sequences of equal number; the lengths of their
/// parts may differ. forward() and its backward wait for the rank `rank_in` and the rank `rank_out`, respectively.
template <class Rnn>
class MultiNodeNStepRnn : public torch::nn::Module {
 public:
  /// Local.
  MultiNodeNStepRnn(Rnn rnn, std::shared_ptr<Communicator> comm, std::optional<int> rank_in,
                    std::optional<int> rank_out);
  /// Takes sequences of equal lengths, in one tensor. Without rank_in, `states` are the first states; if there are
  /// none, the first states are zeros. Throws CommError if the rank `rank_in` sends another number of tensors than this
  /// kind of network has states.
  NStepResult<at::Tensor> forward(const at::Tensor& input, const std::vector<at::Tensor>& states = {});
  /// Takes sequences of any lengths (torch::nn::utils::rnn::pack_sequence()).
  NStepResult<torch::nn::utils::rnn::PackedSequence> forward(const torch::nn::utils::rnn::PackedSequence& input,
                                                             const std::vector<at::Tensor>& states = {});

 private:
  template <class Sequence, class Call>
  NStepResult<Sequence> run(const std::vector<at::Tensor>& states, const Call& call);

  Rnn rnn_;  // has the name "rnn"
  std::shared_ptr<Communicator> comm_;
  std::optional<int> rank_in_, rank_out_;
};

/// Local. ChainerMN's name of the constructor: the layer gets its first states from `rank_in`, or begins with zeros,
/// and sends its last states to `rank_out`, if there is one.
template <class Rnn>
[[nodiscard]] std::shared_ptr<MultiNodeNStepRnn<Rnn>> create_multi_node_n_step_rnn(
    const Rnn& actual, const std::shared_ptr<Communicator>& comm, std::optional<int> rank_in = {},
    std::optional<int> rank_out = {}) {
  return std::make_shared<MultiNodeNStepRnn<Rnn>>(actual, comm, rank_in, rank_out);
}

}  // namespace mn
