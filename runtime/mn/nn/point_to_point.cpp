// (1) Each tensor is a message of its own, with a header. The header also holds the number of tensors.
// (2) Sender and receiver both know the forms of the gradients; therefore gradients travel without headers, in the
//     order of the tensors.
// (3) The delegate is the number 0. Its gradient only lets autograd run the sender's node.
#include <mn/nn/point_to_point.hpp>

#include <span>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/nn/collective_forms.hpp>
#include <mn/nn/gradient_weight.hpp>
#include <mn/tensor/element_messages.hpp>
#include <mn/tensor/kept_value.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

/// Describes one tensor of a message.
struct Header {
  std::int64_t count = 0;  // number of tensors in the message
  std::int64_t requires_grad = 0;
  MessageForm form = {};
};

std::span<std::int64_t> numbers(Header& header) {
  return {reinterpret_cast<std::int64_t*>(&header), sizeof header / sizeof(std::int64_t)};
}

struct Peer {
  std::shared_ptr<Communicator> comm;
  int rank = 0;
  int tag = 0;
};

/// The form and device in which the sender receives the gradient of one tensor.
struct Slot {
  MessageForm form;
  c10::Device device;
};

struct Kept {
  Peer peer;
  std::vector<Slot> slots;  // one for each tensor that this rank has sent
};

const Kept& kept_by(AutogradContext* context, const char* call) {
  if (at::GradMode::is_enabled())
    throw ArgumentError(std::string(call) + ": its gradients can't be differentiated (create_graph)");
  return kept_value<Kept>(context);
}

Tensors views_of(at::TensorList tensors) {
  Tensors views;
  for (const at::Tensor& each : tensors) views.push_back(each.view_as(each));
  return views;
}

void send_all(const Peer& peer, const Tensors& xs, const std::vector<bool>& need_gradients) {
  if (xs.empty()) throw ArgumentError("send: there is no tensor to send");
  Tensors elements;
  for (const at::Tensor& x : xs) {
    elements.push_back(dense_elements(x, "send"));
    static_cast<void>(MessageForm::of(x, "send"));  // throws before anything is sent
  }
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Header header{std::ssize(xs), need_gradients[i] ? 1 : 0,
                  message_form(*peer.comm, elements[i], peer.rank, peer.tag, "send")};
    send_with_form(*peer.comm, numbers(header), header.form, elements[i], peer.rank, peer.tag);
  }
}

/// `need_gradients` tells, for each tensor, whether its gradient must be sent back.
struct Received {
  Tensors tensors;
  std::vector<bool> need_gradients;
};

/// Sets `peer.rank` to the sender's rank; it may be kAnySource.
Received recv_all(Peer& peer) {
  Received received;
  Header header{.count = 1};
  const auto new_tensor = [&] { return tensor_for(header.form, peer.rank, *peer.comm); };
  while (std::ssize(received.tensors) < header.count) {
    received.tensors.push_back(
        recv_with_form(*peer.comm, numbers(header), header.form, new_tensor, peer.rank, peer.tag));
    received.need_gradients.push_back(header.requires_grad != 0);
  }
  return received;
}

/// The autograd node of a delegate, on the sender. Its backward receives the gradients of the tensors that were sent.
class SendNode : public torch::autograd::Function<SendNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const Peer& peer, at::TensorList sent) {
    std::vector<Slot> slots;
    for (const at::Tensor& x : sent) {
      slots.push_back({MessageForm::of(x, "send"), x.device()});
      slots.back().form.dtype = static_cast<std::int64_t>(sent_dtype(x.scalar_type()));
    }
    keep_value(context, Kept{peer, std::move(slots)});
    return new_delegate(sent[0]);
  }
  static variable_list backward(AutogradContext* context, const variable_list& /*gradients*/) {
    const Kept& kept = kept_by(context, "send");
    const Peer& peer = kept.peer;
    const GradientWeight weight(peer.comm);
    variable_list result = {at::Tensor()};  // no gradient for `peer`
    for (const Slot& slot : kept.slots) {
      const at::Tensor gradient = slot.form.empty_on(c10::Device(peer.comm->device()));
      recv_elements(*peer.comm, gradient, peer.rank, peer.tag);
      result.push_back(weight.received(gradient).to(slot.device));
    }
    return result;
  }

  /// The delegate lies on the device of `x`, because autograd runs the node on the thread of the delegate's device.
  [[nodiscard]] static at::Tensor new_delegate(const at::Tensor& x) {
    return at::zeros({}, x.options().dtype(at::kFloat));
  }
};

/// Lets the backward of a node also run the backward of `delegate`, an input of the node. A delegate that is a result
/// of further nodes gets no gradient: autograd runs these nodes all the same, and a delegate may be as large as a
/// layer's activations.
void keep_delegate(AutogradContext* context, const at::Tensor& delegate) {
  if (delegate.is_leaf()) context->save_for_backward({delegate});
}
at::Tensor gradient_of_delegate(AutogradContext* context) {
  const variable_list leaf = context->get_saved_variables();
  return leaf.empty() ? at::Tensor() : at::zeros_like(leaf[0]);
}

/// The autograd node of received tensors. Its backward sends their gradients to the sender, and runs the backward of
/// the delegate, too.
class RecvNode : public torch::autograd::Function<RecvNode> {
 public:
  /// `delegate` requires a gradient: without such an input autograd would not record the node. `received` is a pointer,
  /// because autograd would turn inputs that are results into views, which programs can't modify in place.
  static variable_list forward(AutogradContext* context, const at::Tensor& delegate, const Peer& peer,
                               const std::shared_ptr<Tensors>& received) {
    keep_value(context, Kept{peer, {}});
    keep_delegate(context, delegate);
    return std::move(*received);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Kept& kept = kept_by(context, "recv");
    const Peer& peer = kept.peer;
    const GradientWeight weight(peer.comm);
    for (const at::Tensor& gradient : gradients)
      send_elements(*peer.comm, weight.sent(gradient).contiguous(), peer.rank, peer.tag);
    return {gradient_of_delegate(context), at::Tensor(), at::Tensor()};
  }
};

/// The autograd node of pseudo_connect(): passes the gradients on, and runs the backward of the delegate, too.
class ConnectNode : public torch::autograd::Function<ConnectNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& delegate, at::TensorList actual) {
    keep_delegate(context, delegate);
    return views_of(actual);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    gradients.insert(gradients.begin(), gradient_of_delegate(context));
    return gradients;
  }
};

/// Replaces the chosen tensors by the results of call(chosen tensors).
template <class Call>
void replace(Tensors& tensors, const std::vector<bool>& chosen, const Call& call) {
  Tensors given;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (chosen[i]) given.push_back(tensors[i]);
  }
  if (given.empty()) return;
  const Tensors results = call(given);
  auto next = results.begin();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (chosen[i]) tensors[i] = *next++;
  }
}

}  // namespace

at::Tensor send(const at::Tensor& x, const std::shared_ptr<Communicator>& comm, int rank, int tag) {
  return send(Tensors{x}, comm, rank, tag);
}

at::Tensor send(const std::vector<at::Tensor>& xs, const std::shared_ptr<Communicator>& comm, int rank, int tag) {
  require_communicator(comm, "send");
  const Peer peer{comm, rank, tag};
  std::vector<bool> need_gradients;
  Tensors with_gradients;
  for (const at::Tensor& x : xs) {
    need_gradients.push_back(x.defined() && x.requires_grad() && at::GradMode::is_enabled());
    if (need_gradients.back()) with_gradients.push_back(x);
  }
  send_all(peer, xs, need_gradients);
  if (!with_gradients.empty()) return SendNode::apply(peer, at::TensorList(with_gradients));
  return SendNode::new_delegate(xs[0]).requires_grad_(at::GradMode::is_enabled());
}

at::Tensor recv(const std::shared_ptr<Communicator>& comm, int rank, const at::Tensor& delegate, int tag) {
  const Tensors all = recv_tuple(comm, rank, delegate, tag);
  if (all.size() == 1) return all[0];
  throw CommError("recv: rank " + std::to_string(rank) + " sent " + std::to_string(all.size()) +
                  " tensors: call recv_tuple");
}

std::vector<at::Tensor> recv_tuple(const std::shared_ptr<Communicator>& comm, int rank, const at::Tensor& delegate,
                                   int tag) {
  require_communicator(comm, "recv");
  if (tag == Communicator::kAnyTag)
    throw ArgumentError("recv: give the sender's tag, not kAnyTag: gradients travel back with this tag");
  Peer peer{comm, rank, tag};
  auto [tensors, need_gradients] = recv_all(peer);
  if (!at::GradMode::is_enabled()) return tensors;
  replace(tensors, need_gradients, [&](const Tensors& received) {
    const bool is_needed = delegate.defined() && delegate.requires_grad();
    const at::Tensor input = is_needed ? delegate : at::empty({0}).requires_grad_();
    return RecvNode::apply(input, peer, std::make_shared<Tensors>(received));
  });
  need_gradients.flip();
  replace(tensors, need_gradients, [&](const Tensors& others) { return pseudo_connect(delegate, others); });
  return tensors;
}

at::Tensor pseudo_connect(const at::Tensor& delegate, const at::Tensor& actual) {
  return pseudo_connect(delegate, Tensors{actual})[0];
}

std::vector<at::Tensor> pseudo_connect(const at::Tensor& delegate, const std::vector<at::Tensor>& actual) {
  Tensors results = actual;
  if (!delegate.defined()) return results;
  std::vector<bool> can_connect;
  for (const at::Tensor& each : actual) can_connect.push_back(at::isFloatingType(each.scalar_type()));
  replace(results, can_connect,
          [&](const Tensors& chosen) { return ConnectNode::apply(delegate, at::TensorList(chosen)); });
  return results;
}

}  // namespace mn
