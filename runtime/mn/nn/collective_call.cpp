#include <mn/nn/collective_call.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/nn/gradient_weight.hpp>
#include <mn/tensor/kept_value.hpp>
#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Form = CollectiveForm;

bool any_has(std::int64_t Form::*flag, const std::vector<Form>& forms) {
  return std::ranges::any_of(forms, [flag](const Form& form) { return form.*flag != 0; });
}

std::vector<at::Tensor> record(CollectiveCall call, const at::Tensor& link, const std::vector<at::Tensor>& given);

class CollectiveNode : public torch::autograd::Function<CollectiveNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& /*(2), (3)*/,
                               const std::shared_ptr<CollectiveCall>& call, at::TensorList given) {
    keep_value(context, call);
    variable_list results = call->forward(given.vec());
    results.push_back(at::empty({0}));  // (3)
    context->save_for_backward({results.back()});
    return results;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    gradients.pop_back();  // of the extra output
    const auto& call = kept_value<std::shared_ptr<CollectiveCall>>(context);
    const GradientWeight weight(call->comm);
    if (call->one_sided != nullptr && at::GradMode::is_enabled())
      throw ArgumentError(std::string(call->one_sided) + ": its gradients can't be differentiated (create_graph)",
                          true);
    // The adjoint is recorded as a collective call, too, so gradients can be differentiated again (create_graph).
    const CollectiveCall adjoint{call->comm, call->backward, call->again ? call->again : call->forward};
    variable_list result = {at::Tensor(), at::Tensor()};  // no gradient for the extra input and `call`
    variable_list sent;
    for (const at::Tensor& gradient : gradients) sent.push_back(weight.sent(gradient));
    const variable_list received =
        at::GradMode::is_enabled() ? record(adjoint, context->get_saved_variables()[0], sent) : adjoint.forward(sent);
    for (const at::Tensor& gradient : received) result.push_back(weight.received(gradient));
    return result;
  }
};

/// `link` is the extra input: an extra output of the node that must run after this node in backward, or a leaf.
std::vector<at::Tensor> record(CollectiveCall call, const at::Tensor& link, const std::vector<at::Tensor>& given) {
  auto results = CollectiveNode::apply(link, std::make_shared<CollectiveCall>(std::move(call)), at::TensorList(given));
  results.pop_back();
  return results;
}

}  // namespace

std::vector<at::Tensor> run_collective(const CollectiveCall& call, const std::vector<at::Tensor>& given,
                                       const std::vector<Form>& forms) {
  if (!any_has(&Form::requires_grad, forms) || !at::GradMode::is_enabled()) return call.forward(given);
  auto results = record(call, at::empty({0}).requires_grad_(), given);
  if (any_has(&Form::narrow_gradients, forms)) mark_collective(results.front(), call.comm);
  return results;
}

std::vector<Form> forms_of(const std::vector<at::Tensor>& parts, Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool all_defined = std::ranges::all_of(parts, [](const at::Tensor& part) { return part.defined(); });
  if (parts.size() != ranks || !all_defined)
    return std::vector<Form>(ranks, {.fault = Form::kOtherCount, .tensor = {.dims = std::ssize(parts)}});
  std::vector<Form> forms;
  for (const at::Tensor& part : parts) forms.push_back(Form::of(comm, part));
  return forms;
}

std::vector<MessageForm> message_forms(const std::vector<Form>& forms) {
  std::vector<MessageForm> result;
  for (const Form& form : forms) result.push_back(form.tensor);
  return result;
}

std::vector<MessageForm> of_gradients(std::vector<MessageForm> forms) {
  for (MessageForm& form : forms) {
    if (form.dtype < 0) continue;
    form.dtype = static_cast<std::int64_t>(sent_dtype(static_cast<at::ScalarType>(form.dtype)));
  }
  return forms;
}

bool all_by_device(const std::vector<Form>& forms) {
  return std::ranges::all_of(forms, [](const Form& form) { return form.tensor.by_device != 0; });
}

void check_defined(const std::vector<Form>& forms, const char* call) {
  const auto missing = std::ranges::find_if(forms, [](const Form& form) { return form.tensor.dtype < 0; });
  if (missing == forms.end()) return;
  throw ArgumentError(std::string(call) + ": rank " + std::to_string(missing - forms.begin()) + " gave no tensor",
                      true);
}

void check_alike(const std::vector<Form>& forms, std::size_t step, std::int64_t first, const char* call,
                 std::size_t count) {
  for (std::size_t i = 0; i < forms.size(); i += step) {
    const auto rest = [first](const MessageForm& form) {
      std::vector<std::int64_t> shape = form.shape();
      if (std::ssize(shape) >= first) shape.erase(shape.begin(), shape.begin() + first);
      return shape;
    };
    const MessageForm &form = forms[i].tensor, &other = forms[0].tensor;
    const bool is_alike = form.dtype >= 0 && form.dims >= first && form.dtype == other.dtype &&
                          form.dims == other.dims && rest(form) == rest(other);
    if (is_alike && form.by_device == other.by_device) continue;
    const char* const why = is_alike    ? ": one lies on the device, the other does not"
                            : first > 0 ? ": all but the first dimension must agree"
                                        : "";
    throw ArgumentError(std::string(call) + ": rank 0 gave " + other.text() + ", rank " + std::to_string(i / count) +
                            " " + form.text() + why,
                        true);
  }
}

std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& given, const std::vector<MessageForm>& from,
                                 bool by_device, Communicator& comm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sent, received;
  for (const at::Tensor& each : given) sent.push_back(each.defined() ? each.detach().contiguous() : each);
  for (const MessageForm& form : from)
    received.push_back(form.dtype < 0 ? at::Tensor() : form.empty_on(c10::Device(comm.device())));
  ordered_exchange(comm, sent, received, by_device);
  return received;
}

}  // namespace mn
