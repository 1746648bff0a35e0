/// ChainerMN's MultiNodeChainList: a model whose layers lie on several ranks, written as a list on each rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// The components of a model that this rank computes, and the ranks between which their inputs and outputs travel.
///
///     mn::MultiNodeChainList model(comm);
///     if (comm->rank() == 0) {
///       model.add_link(Encoder(784, 100), {}, 1);  // from forward()'s input; the output goes to rank 1
///       model.add_link(Head(50, 10), 1);           // from rank 1; the output is forward()'s result
///     } else {
///       model.add_link(Middle(100, 50), 0, 0);
///     }
///     loss_of(model.forward(x)).backward();  // rank 1 passes no x, and calls model.forward().backward()
///
/// forward() runs the components in the order of add_link(), and sends and receives tensors as mn::send() and
/// mn::recv_tuple() do. Backward runs components and messages in the opposite order, even if an output is not part of a
/// loss. Therefore backward cannot deadlock if forward() does not: if two ranks send to each other, one of them should
/// receive first. Every rank that has components calls forward(), and then backward(). parameters() are the parameters
/// of this rank's components, with names such as "0.weight" and "1.bias".
class MultiNodeChainList : public torch::nn::Module {
 public:
  /// One rank, several, or none.
  class Ranks {
   public:
    Ranks() = default;  ///< no rank
    /// One rank, from a number.
    Ranks(int rank) : ranks_{rank} {}  // NOLINT(google-explicit-constructor)
    /// Several ranks, from a list in braces.
    Ranks(std::initializer_list<int> ranks) : ranks_(ranks) {}
    /// Several ranks, from a vector.
    Ranks(std::vector<int> ranks) : ranks_(std::move(ranks)) {}  // NOLINT(google-explicit-constructor)

   private:
    friend class MultiNodeChainList;
    std::vector<int> ranks_;
  };

  /// Local.
  explicit MultiNodeChainList(std::shared_ptr<Communicator> comm);

  /// Local. Adds a component, a libtorch module or its holder. The component's forward() takes the tensors of all ranks
  /// of `rank_in`, in this order; without rank_in, it takes the inputs of this list's forward(). It takes them as up to
  /// eight arguments, or as a std::vector<at::Tensor>, and returns a tensor, a vector or a tuple. All ranks of
  /// `rank_out` get all returned tensors; without rank_out, the list's forward() returns them. The own rank may be in
  /// both lists, also several times: components get the outputs for the own rank in the order in which the outputs were
  /// made.
  ///
  /// Throws ArgumentError for a number that is not a rank, for a second component without rank_out, and if components
  /// would receive from the own rank before a component has sent to it.
  template <class Link>
  void add_link(const Link& link, Ranks rank_in = {}, Ranks rank_out = {}) {
    const std::string name = std::to_string(components_.size());
    add({[component = link](const Tensors& inputs) mutable { return call(*component, inputs); },
         std::move(rank_in.ranks_), std::move(rank_out.ranks_)});
    // A component that is added twice has its parameters once.
    const auto is_link = [&link](const auto& child) { return child.get() == &*link; };
    if (std::ranges::none_of(children(), is_link)) register_module(name, link);
  }

  /// Returns the output of the component without rank_out. If this rank has no such component, returns a delegate: the
  /// number 0, whose backward() runs the backward of all components. Throws ArgumentError for several outputs; and,
  /// before anything is sent, if the list has no component, or if no component receives an output for the own rank.
  at::Tensor forward(const at::Tensor& input = {});
  /// Does the work of forward() for any number of inputs and outputs.
  std::vector<at::Tensor> forward_tuple(const std::vector<at::Tensor>& inputs);

 private:
  static constexpr std::size_t kMaxArguments = 8;
  using Tensors = std::vector<at::Tensor>;
  struct Component {
    std::function<Tensors(const Tensors&)> forward;
    std::vector<int> rank_in, rank_out;
  };
  class Pass;

  void add(Component component);

  static void collect(Tensors& all, const at::Tensor& tensor) { all.push_back(tensor); }
  static void collect(Tensors& all, const Tensors& tensors) { all.insert(all.end(), tensors.begin(), tensors.end()); }
  template <class... Each>
  static void collect(Tensors& all, const std::tuple<Each...>& results) {
    std::apply([&](const Each&... each) { (collect(all, each), ...); }, results);
  }
  template <class Module, std::size_t... I>
  static bool call_with(Module& module, const Tensors& inputs, Tensors& outputs,
                        std::index_sequence<I...> /*indices*/) {
    if constexpr (requires { module.forward(inputs[I]...); }) {
      if (inputs.size() != sizeof...(I)) return false;
      collect(outputs, module.forward(inputs[I]...));
      return true;
    } else {
      return false;
    }
  }
  template <class Module>
  static Tensors call(Module& module, const Tensors& inputs) {
    Tensors outputs;
    const auto try_counts = [&]<std::size_t... N>(std::index_sequence<N...> /*counts*/) {
      return (call_with(module, inputs, outputs, std::make_index_sequence<N>()) || ...);
    };
    if (try_counts(std::make_index_sequence<kMaxArguments + 1>())) return outputs;
    if constexpr (requires { module.forward(inputs); }) {
      collect(outputs, module.forward(inputs));
      return outputs;
    } else {
      throw ArgumentError("MultiNodeChainList: the component " + module.name() + " does not take " +
                          std::to_string(inputs.size()) + " tensors");
    }
  }

  std::shared_ptr<Communicator> comm_;
  std::vector<Component> components_;
  std::size_t to_self_ = 0;    // number of outputs that components send to the own rank
  std::size_t from_self_ = 0;  // number of outputs that components receive from the own rank
};

}  // namespace mn
