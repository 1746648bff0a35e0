// Each send, receive and component of a forward pass is connected to the one before it (pseudo_connect()). Therefore
// backward makes the same steps in the opposite order. Every gradient finds its receiver, because the messages of the
// forward pass found theirs.
#include <mn/nn/chain_list.hpp>

#include <algorithm>
#include <deque>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <mn/nn/collective_forms.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// One forward pass.
class MultiNodeChainList::Pass {
 public:
  explicit Pass(const std::shared_ptr<Communicator>& comm) : comm_(comm) {}

  /// Returns the tensors; their backward runs before the backward of all earlier steps.
  [[nodiscard]] Tensors connected(const Tensors& tensors) const { return pseudo_connect(last_, tensors); }
  [[nodiscard]] Tensors receive(const std::vector<int>& ranks) {
    Tensors inputs;
    for (const int rank : ranks) {
      const Tensors received = rank == comm_->rank() ? receive_own() : recv_tuple(comm_, rank, last_);
      finish_step(received);
      inputs.insert(inputs.end(), received.begin(), received.end());
    }
    return inputs;
  }
  void send(Tensors outputs, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      outputs = connected(outputs);
      if (rank == comm_->rank()) {
        own_.push_back(outputs);
        finish_step(outputs);
      } else {
        finish_step({mn::send(outputs, comm_, rank)}, outputs);
      }
    }
  }
  void finish_step(const Tensors& results) { finish_step(results, results); }
  [[nodiscard]] at::Tensor delegate() const {
    const at::Tensor zero = at::zeros({}, c10::Device(comm_->device()));
    return last_.defined() ? connected({zero})[0] : zero.requires_grad_(at::GradMode::is_enabled());
  }

 private:
  [[nodiscard]] Tensors receive_own() {
    Tensors received = connected(own_.front());
    own_.pop_front();
    return received;
  }
  /// The step's results lead to the steps before if a gradient passes through `connected`.
  void finish_step(const Tensors& results, const Tensors& connected) {
    const auto needs_gradient = [](const at::Tensor& each) { return each.requires_grad(); };
    const auto found = std::ranges::find_if(results, needs_gradient);
    if (found != results.end() && (!last_.defined() || std::ranges::any_of(connected, needs_gradient))) last_ = *found;
  }

  std::shared_ptr<Communicator> comm_;
  at::Tensor last_;          // a result of the last step through which a gradient passes
  std::deque<Tensors> own_;  // what this rank has sent to itself
};

MultiNodeChainList::MultiNodeChainList(std::shared_ptr<Communicator> comm)
    : torch::nn::Module("MultiNodeChainList"), comm_(std::move(comm)) {
  require_communicator(comm_, "MultiNodeChainList");
}

void MultiNodeChainList::add(Component component) {
  const std::string name = "MultiNodeChainList: component " + std::to_string(components_.size());
  for (const auto* const ranks : {&component.rank_in, &component.rank_out}) {
    for (const int rank : *ranks) {
      if (rank >= 0 && rank < comm_->size()) continue;
      throw ArgumentError(name + " has rank " + std::to_string(rank) + ": there are ranks 0 to " +
                          std::to_string(comm_->size() - 1));
    }
  }
  const auto has_output = [](const Component& each) { return each.rank_out.empty(); };
  if (has_output(component) && std::ranges::any_of(components_, has_output))
    throw ArgumentError(name + " has no rank_out, but an earlier component has none, either: only one component of a " +
                        "rank returns the model's output");
  const std::size_t from_self =
      from_self_ + static_cast<std::size_t>(std::ranges::count(component.rank_in, comm_->rank()));
  if (from_self > to_self_)
    throw ArgumentError(name + " receives from its own rank " + std::to_string(comm_->rank()) +
                        ", but no earlier component has sent to this rank");
  from_self_ = from_self;
  to_self_ += static_cast<std::size_t>(std::ranges::count(component.rank_out, comm_->rank()));
  components_.push_back(std::move(component));
}

at::Tensor MultiNodeChainList::forward(const at::Tensor& input) {
  const Tensors outputs = forward_tuple(input.defined() ? Tensors{input} : Tensors());
  if (outputs.size() == 1) return outputs[0];
  throw ArgumentError("MultiNodeChainList: the model returns " + std::to_string(outputs.size()) +
                      " tensors: call forward_tuple");
}

std::vector<at::Tensor> MultiNodeChainList::forward_tuple(const std::vector<at::Tensor>& inputs) {
  if (components_.empty())
    throw ArgumentError("MultiNodeChainList: rank " + std::to_string(comm_->rank()) +
                        " has no component: call add_link");
  if (from_self_ != to_self_)
    throw ArgumentError("MultiNodeChainList: components send " + std::to_string(to_self_) +
                        " outputs to their own rank " + std::to_string(comm_->rank()) + ", and receive " +
                        std::to_string(from_self_));
  Pass pass(comm_);
  bool has_outputs = false;
  Tensors model_outputs;
  for (const Component& each : components_) {
    const Tensors received = pass.receive(each.rank_in);
    const Tensors outputs = each.forward(each.rank_in.empty() ? inputs : received);
    pass.send(outputs, each.rank_out);
    if (!each.rank_out.empty()) continue;
    has_outputs = true;
    model_outputs = pass.connected(outputs);
    pass.finish_step(model_outputs);
  }
  return has_outputs ? pass.connected(model_outputs) : Tensors{pass.delegate()};
}

}  // namespace mn
