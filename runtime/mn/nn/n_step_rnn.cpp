#include <mn/nn/n_step_rnn.hpp>

#include <string>
#include <tuple>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/nn/point_to_point.hpp>

namespace mn {
namespace {

using torch::nn::utils::rnn::PackedSequence;
using Tensors = std::vector<at::Tensor>;
using TwoStates = std::tuple<at::Tensor, at::Tensor>;  // of an LSTM

/// How a kind of network passes its states.
template <class Rnn>
struct States {
  static constexpr std::size_t kCount = 1;
  static at::Tensor from(const Tensors& states) { return states.empty() ? at::Tensor() : states[0]; }
  static Tensors list(const at::Tensor& state) { return {state}; }
};
template <>
struct States<torch::nn::LSTM> {
  static constexpr std::size_t kCount = 2;
  static std::optional<TwoStates> from(const Tensors& states) {
    if (states.empty()) return std::nullopt;
    return TwoStates(states[0], states[1]);
  }
  static Tensors list(const TwoStates& states) { return {std::get<0>(states), std::get<1>(states)}; }
};

}  // namespace

template <class Rnn>
MultiNodeNStepRnn<Rnn>::MultiNodeNStepRnn(Rnn rnn, std::shared_ptr<Communicator> comm, std::optional<int> rank_in,
                                          std::optional<int> rank_out)
    : rnn_(register_module("rnn", std::move(rnn))), comm_(std::move(comm)), rank_in_(rank_in), rank_out_(rank_out) {}

template <class Rnn>
template <class Sequence, class Call>
NStepResult<Sequence> MultiNodeNStepRnn<Rnn>::run(const Tensors& states, const Call& call) {
  constexpr std::size_t kCount = States<Rnn>::kCount;
  const Tensors first = rank_in_ ? recv_tuple(comm_, *rank_in_) : states;
  if (rank_in_ && first.size() != kCount) {
    throw CommError("multi-node RNN: rank " + std::to_string(*rank_in_) + " sent " + std::to_string(first.size()) +
                    " tensors, but this network has " + std::to_string(kCount) + " states");
  }
  if (!first.empty() && first.size() != kCount) {
    throw ArgumentError("multi-node RNN: " + std::to_string(first.size()) +
                        " states were given, but this network has " + std::to_string(kCount));
  }
  auto [output, last] = call(States<Rnn>::from(first));
  NStepResult<Sequence> result{std::move(output), States<Rnn>::list(last), {}};
  if (rank_out_) result.delegate = send(result.states, comm_, *rank_out_);
  return result;
}

template <class Rnn>
NStepResult<at::Tensor> MultiNodeNStepRnn<Rnn>::forward(const at::Tensor& input, const Tensors& states) {
  return run<at::Tensor>(states, [&](auto first) { return rnn_->forward(input, std::move(first)); });
}

template <class Rnn>
NStepResult<PackedSequence> MultiNodeNStepRnn<Rnn>::forward(const PackedSequence& input, const Tensors& states) {
  return run<PackedSequence>(states,
                             [&](auto first) { return rnn_->forward_with_packed_input(input, std::move(first)); });
}

template class MultiNodeNStepRnn<torch::nn::LSTM>;
template class MultiNodeNStepRnn<torch::nn::GRU>;
template class MultiNodeNStepRnn<torch::nn::RNN>;

}  // namespace mn
