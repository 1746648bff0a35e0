// Each call is one autograd node whose backward is the adjoint call.
//
// (1) Ranks first agree on the forms of their tensors: shape, dtype, requires_grad. Therefore all ranks find every
//     mismatch, and either all ranks record the node or no rank does. Otherwise some ranks would wait in a backward
//     that another rank does not run.
// (2) Autograd would not record the node if no tensor of this rank requires a gradient. Therefore the node has an extra
//     input that requires a gradient.
// (3) Parts of different lengths are padded to the longest part. gather_rows() and sum_rows() are adjoint to each
//     other.
#include <mn/nn/collectives.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/nn/collective_forms.hpp>
#include <mn/nn/gradient_weight.hpp>
#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/message_form.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Sizes = std::vector<std::int64_t>;

using Form = CollectiveForm;

bool any_has(std::int64_t Form::*flag, const std::vector<Form>& forms) {
  return std::ranges::any_of(forms, [flag](const Form& form) { return form.*flag != 0; });
}

bool all_by_device(const std::vector<Form>& forms) {
  return std::ranges::all_of(forms, [](const Form& form) { return form.tensor.by_device != 0; });
}

/// Throws unless the forms 0, step, 2 · step, … have equal dtypes, devices, and sizes from dimension `first` on.
void check_alike(const std::vector<Form>& forms, std::size_t step, std::int64_t first, const char* call) {
  for (std::size_t i = 0; i < forms.size(); i += step) {
    const auto rest = [first](const MessageForm& form) {
      Sizes shape = form.shape();
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
    throw ArgumentError(std::string(call) + ": rank 0 gave " + other.text() + ", rank " + std::to_string(i / step) +
                            " " + form.text() + why,
                        true);
  }
}

void check_same_root(const std::vector<Form>& forms) {
  const auto root_of = [&](std::size_t rank) { return std::to_string(forms[rank].tensor.number); };
  for (std::size_t r = 1; r < forms.size(); ++r) {
    if (forms[r].tensor.number == forms[0].tensor.number) continue;
    throw ArgumentError(
        "broadcast: rank 0 gave root " + root_of(0) + ", rank " + std::to_string(r) + " root " + root_of(r), true);
  }
}

Sizes with_rows(std::int64_t rows, const at::Tensor& like) {
  Sizes shape = like.sizes().vec();
  shape[0] = rows;
  return shape;
}

std::int64_t longest(const Sizes& rows) { return *std::ranges::max_element(rows); }

/// Gathers the rows of all ranks, in rank order; rank r has rows[r] rows.
at::Tensor gather_rows(const at::Tensor& own, const Sizes& rows, Communicator& comm) {
  const at::NoGradGuard no_grad;
  const std::int64_t most = longest(rows), ranks = comm.size();
  at::Tensor send = own.detach().contiguous();
  if (own.size(0) != most) {
    send = at::zeros(with_rows(most, own), own.options());
    send.narrow(0, 0, own.size(0)).copy_(own);
  }
  at::Tensor all = at::empty(with_rows(most * ranks, own), own.options());
  ordered_allgather(comm, send, all);
  if (std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == most * ranks) return all;
  std::vector<at::Tensor> parts;
  for (std::int64_t r = 0; r < ranks; ++r) parts.push_back(all.narrow(0, r * most, rows[static_cast<std::size_t>(r)]));
  return at::cat(parts);
}

/// Sums `all` over ranks, and returns this rank's rows of the sum. `all` has rows[r] rows for rank r, in rank order.
at::Tensor sum_rows(const at::Tensor& all, const Sizes& rows, Communicator& comm) {
  const at::NoGradGuard no_grad;
  const std::int64_t most = longest(rows), ranks = comm.size();
  at::Tensor send = all.detach().contiguous();
  if (all.size(0) != most * ranks) {
    send = at::zeros(with_rows(most * ranks, all), all.options());
    std::int64_t first = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const std::int64_t count = rows[static_cast<std::size_t>(r)];
      send.narrow(0, r * most, count).copy_(all.narrow(0, first, count));
      first += count;
    }
  }
  at::Tensor sum = at::empty(with_rows(most, all), all.options());
  ordered_reduce_scatter(comm, send, sum);
  const std::int64_t own = rows[static_cast<std::size_t>(comm.rank())];
  return own == most ? sum : sum.narrow(0, 0, own).contiguous();
}

at::Tensor sum_all(const at::Tensor& tensor, Communicator& comm) {
  at::Tensor sum = tensor.detach().clone(at::MemoryFormat::Contiguous);
  ordered_allreduce(comm, sum);
  return sum;
}

/// Sends given[r] to rank r. Returns the tensors from all ranks; from[r] is the form of the tensor from rank r.
std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& given, const std::vector<MessageForm>& from,
                                 bool by_device, Communicator& comm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sent, received;
  for (const at::Tensor& each : given) sent.push_back(each.detach().contiguous());
  for (const MessageForm& form : from) received.push_back(form.empty_on(c10::Device(comm.device())));
  ordered_exchange(comm, sent, received, by_device);
  return received;
}

std::vector<MessageForm> of_gradients(std::vector<MessageForm> forms) {
  for (MessageForm& form : forms) {
    form.dtype = static_cast<std::int64_t>(sent_dtype(static_cast<at::ScalarType>(form.dtype)));
  }
  return forms;
}

/// A collective call and the call of its backward (the adjoint).
struct CollectiveCall {
  using Move = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& given)>;
  std::shared_ptr<Communicator> comm;
  Move forward;
  Move backward;                    // takes gradients in sent_dtype()
  const char* one_sided = nullptr;  // name of a call whose gradient only one rank has
  Move again = {};                  // replaces `forward` for gradients of gradients; empty: `forward`
};

std::vector<at::Tensor> record(CollectiveCall call, const std::vector<at::Tensor>& given);

class CollectiveNode : public torch::autograd::Function<CollectiveNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& /*(2)*/,
                               const std::shared_ptr<CollectiveCall>& call, at::TensorList given) {
    context->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<Capsule>(call));
    return call->forward(given.vec());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto call = c10::static_intrusive_pointer_cast<Capsule>(context->saved_data["call"].toCapsule())->call;
    const GradientWeight weight(call->comm);
    if (call->one_sided != nullptr && at::GradMode::is_enabled())
      throw ArgumentError(std::string(call->one_sided) + ": its gradients can't be differentiated (create_graph)",
                          true);
    // The adjoint is recorded as a collective call, too, so gradients can be differentiated again (create_graph).
    const CollectiveCall adjoint{call->comm, call->backward, call->again ? call->again : call->forward};
    variable_list result = {at::Tensor(), at::Tensor()};  // no gradient for the extra input and `call`
    variable_list sent;
    for (const at::Tensor& gradient : gradients) sent.push_back(weight.sent(gradient));
    for (const at::Tensor& gradient : at::GradMode::is_enabled() ? record(adjoint, sent) : adjoint.forward(sent)) {
      result.push_back(weight.received(gradient));
    }
    return result;
  }

 private:
  struct Capsule : torch::CustomClassHolder {
    explicit Capsule(std::shared_ptr<CollectiveCall> kept) : call(std::move(kept)) {}
    std::shared_ptr<CollectiveCall> call;
  };
};

std::vector<at::Tensor> record(CollectiveCall call, const std::vector<at::Tensor>& given) {
  const at::Tensor stand_in = at::empty({0}).requires_grad_();
  return CollectiveNode::apply(stand_in, std::make_shared<CollectiveCall>(std::move(call)), at::TensorList(given));
}

/// Runs the call. Records it for backward if `forms` shows that a tensor of any rank needs a gradient.
std::vector<at::Tensor> run(const CollectiveCall& call, const std::vector<at::Tensor>& given,
                            const std::vector<Form>& forms) {
  if (!any_has(&Form::requires_grad, forms) || !at::GradMode::is_enabled()) return call.forward(given);
  auto results = record(call, given);
  if (any_has(&Form::narrow_gradients, forms)) mark_collective(results.front(), call.comm);
  return results;
}

/// Returns the forms of `parts`. If `parts` lacks a tensor for some rank, the forms tell all ranks, so that all throw.
std::vector<Form> forms_of(const std::vector<at::Tensor>& parts, Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool all_defined = std::ranges::all_of(parts, [](const at::Tensor& part) { return part.defined(); });
  if (parts.size() != ranks || !all_defined)
    return std::vector<Form>(ranks, {.fault = Form::kOtherCount, .tensor = {.dims = std::ssize(parts)}});
  std::vector<Form> forms;
  for (const at::Tensor& part : parts) forms.push_back(Form::of(comm, part));
  return forms;
}

}  // namespace

at::Tensor all_gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& rows) {
  const std::vector<Form> forms = agree_on_forms(comm, {Form::of(*comm, rows)}, "all_gather");
  check_alike(forms, 1, 1, "all_gather");
  Sizes counts;
  for (const Form& form : forms) counts.push_back(form.tensor.sizes[0]);
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return std::vector{gather_rows(given[0], counts, *comm)}; },
      [=](const auto& gradients) { return std::vector{sum_rows(gradients[0], counts, *comm)}; },
  };
  return run(call, {rows}, forms).front();
}

at::Tensor all_reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor) {
  const std::vector<Form> forms = agree_on_forms(comm, {Form::of(*comm, tensor)}, "all_reduce");
  check_alike(forms, 1, 0, "all_reduce");
  const auto sum = [=](const auto& given) { return std::vector{sum_all(given[0], *comm)}; };
  return run({comm, sum, sum}, {tensor}, forms).front();
}

at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts) {
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::vector<Form> forms = agree_on_forms(comm, forms_of(parts, *comm), "reduce_scatter");
  check_alike(forms, 1, 1, "reduce_scatter");
  Sizes counts;
  for (std::size_t r = 0; r < ranks; ++r) {
    counts.push_back(forms[r].tensor.sizes[0]);
    check_alike({forms.begin() + static_cast<std::ptrdiff_t>(r), forms.end()}, ranks, 0, "reduce_scatter");
  }
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return std::vector{sum_rows(at::cat(given), counts, *comm)}; },
      [=](const auto& gradients) { return gather_rows(gradients[0], counts, *comm).split_with_sizes(counts); },
  };
  return run(call, parts, forms).front();
}

at::Tensor broadcast(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root) {
  const bool is_root = comm->rank() == root;
  Form own = Form::of(*comm, is_root ? tensor : at::Tensor());
  own.tensor.number = root;  // lets all ranks compare their roots
  const std::vector<Form> forms = agree_on_forms(comm, {own}, "broadcast");
  check_same_root(forms);
  const MessageForm form =
      root < 0 || root >= comm->size() ? MessageForm{} : forms[static_cast<std::size_t>(root)].tensor;
  if (form.dtype < 0)
    throw ArgumentError("broadcast from root " + std::to_string(root) + ": that rank gave no tensor", true);
  const CollectiveCall call{
      comm,
      [=](const auto& given) {
        at::Tensor result = is_root ? given[0].detach().clone(at::MemoryFormat::Contiguous)
                                    : form.empty_on(c10::Device(comm->device()));
        form.by_device != 0 ? ordered_bcast(*comm, result, root) : comm->bcast(result, root);
        return std::vector{result};
      },
      [=](const auto& gradients) {
        at::Tensor sum = sum_all(gradients[0], *comm);
        return is_root ? std::vector{sum} : std::vector<at::Tensor>();
      },
      "broadcast",
  };
  return run(call, is_root ? std::vector{tensor} : std::vector<at::Tensor>(), forms).front();
}

std::vector<at::Tensor> alltoall(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts) {
  const std::vector<Form> forms = agree_on_forms(comm, forms_of(parts, *comm), "alltoall");
  const auto rank = static_cast<std::size_t>(comm->rank()), ranks = parts.size();
  std::vector<MessageForm> to, from;  // forms[source × ranks + dest]
  for (std::size_t r = 0; r < ranks; ++r) {
    to.push_back(forms[rank * ranks + r].tensor);
    from.push_back(forms[r * ranks + rank].tensor);
  }
  const auto move = [comm, by_device = all_by_device(forms)](std::vector<MessageForm> received) {
    return [=](const auto& given) { return exchange(given, received, by_device, *comm); };
  };
  const CollectiveCall call{comm, move(from), move(of_gradients(to)), nullptr, move(of_gradients(from))};
  return run(call, parts, forms);
}

}  // namespace mn
