// Each call is one autograd node whose backward is the adjoint call.
//
// (1) Ranks first exchange the forms of their tensors: shape, dtype, requires_grad. So all ranks find every mismatch,
//     and the node is recorded on all ranks or on none. Otherwise some ranks would wait in a backward that another rank
//     does not run.
// (2) The node has an extra input that requires a gradient, because autograd would not record the node if this rank's
//     tensors require none.
// (3) Parts of different lengths are padded to the longest part. gather_rows() and sum_rows() are adjoint to each
//     other.
#include <mn/nn/collectives.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/loss_unit.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>

namespace mn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Sizes = std::vector<std::int64_t>;

constexpr std::size_t kMaxDims = 16;

/// The description of a rank's tensor that the ranks exchange.
struct Form {
  enum Fault : std::int64_t { kNone, kSparse, kManyDims, kOtherCount } fault = kNone;
  std::int64_t requires_grad = 0;
  std::int64_t narrow_gradients = any_narrow_gradients() ? 1 : 0;
  std::int64_t dtype = -1;  // -1: an undefined tensor
  std::int64_t dims = 0;
  std::array<std::int64_t, kMaxDims> sizes = {};

  [[nodiscard]] std::string text() const {
    if (dtype < 0) return "an undefined tensor";
    return std::string(toString(static_cast<at::ScalarType>(dtype))) + " " + nlohmann::json(shape()).dump();
  }
  [[nodiscard]] Sizes shape() const { return {sizes.begin(), sizes.begin() + dims}; }
};
constexpr std::size_t kFormCount = sizeof(Form) / sizeof(std::int64_t);

Form form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (tensor.layout() != at::kStrided) return {.fault = Form::kSparse};
  if (tensor.dim() > static_cast<std::int64_t>(kMaxDims)) return {.fault = Form::kManyDims};
  Form form{.requires_grad = at::GradMode::is_enabled() && tensor.requires_grad() ? 1 : 0,
            .dtype = static_cast<std::int64_t>(tensor.scalar_type()),
            .dims = tensor.dim()};
  std::ranges::copy(tensor.sizes(), form.sizes.begin());
  return form;
}

std::string text_of(Form::Fault fault, std::int64_t number) {
  if (fault == Form::kSparse) return "a sparse tensor: give its to_dense()";
  if (fault == Form::kManyDims) return "a tensor of more than " + std::to_string(kMaxDims) + " dimensions";
  return std::to_string(number) + " tensors, or undefined ones: give one for each rank";
}

/// Collective: returns the forms of all ranks' tensors, rank by rank. `own` must have the same length on every rank. If
/// a tensor of any rank has a fault, all ranks throw.
std::vector<Form> gather_forms(Communicator& comm, const std::vector<Form>& own, const char* call) {
  std::vector<Form> all(own.size() * static_cast<std::size_t>(comm.size()));
  comm.allgather(std::span(reinterpret_cast<const std::int64_t*>(own.data()), own.size() * kFormCount),
                 std::span(reinterpret_cast<std::int64_t*>(all.data()), all.size() * kFormCount));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].fault == Form::kNone) continue;
    throw ArgumentError(
        std::string(call) + ": rank " + std::to_string(i / own.size()) + " gave " + text_of(all[i].fault, all[i].dims),
        true);
  }
  return all;
}

bool any_has(std::int64_t Form::*flag, const std::vector<Form>& forms) {
  return std::ranges::any_of(forms, [flag](const Form& form) { return form.*flag != 0; });
}

/// Throws unless every step-th form has the same dtype, number of dimensions, and sizes from dimension `first` on.
void check_alike(const std::vector<Form>& forms, std::size_t step, std::int64_t first, const char* call) {
  for (std::size_t i = 0; i < forms.size(); i += step) {
    const auto rest = [first](const Form& form) {
      Sizes shape = form.shape();
      if (std::ssize(shape) >= first) shape.erase(shape.begin(), shape.begin() + first);
      return shape;
    };
    const Form &form = forms[i], &other = forms[0];
    const bool good = form.dtype >= 0 && form.dims >= first && form.dtype == other.dtype && form.dims == other.dims &&
                      rest(form) == rest(other);
    if (good) continue;
    throw ArgumentError(std::string(call) + ": rank 0 gave " + other.text() + ", rank " + std::to_string(i / step) +
                            " " + form.text() + (first > 0 ? ": all but the first dimension must agree" : ""),
                        true);
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
  comm.allgather(send, all);
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
  comm.reduce_scatter(send, sum);
  const std::int64_t own = rows[static_cast<std::size_t>(comm.rank())];
  return own == most ? sum : sum.narrow(0, 0, own).contiguous();
}

at::Tensor sum_all(const at::Tensor& tensor, Communicator& comm) {
  at::Tensor sum = tensor.detach().clone(at::MemoryFormat::Contiguous);
  comm.allreduce(sum);
  return sum;
}

/// A collective call and its adjoint.
struct CollectiveCall {
  std::shared_ptr<Communicator> comm;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& given)> forward;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& gradients)> backward;
  const char* one_sided = nullptr;  // name of a call whose gradient only one rank has
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
    const auto unit = pass_gradients_over(call->comm);
    if (!unit) assume_equal_weights();
    if (call->one_sided != nullptr && at::GradMode::is_enabled())
      throw ArgumentError(std::string(call->one_sided) + ": its gradients can't be differentiated (create_graph)",
                          true);
    // The adjoint is a call of its own, so it is differentiable, too (create_graph).
    const CollectiveCall adjoint{call->comm, call->backward, call->forward};
    variable_list result = {at::Tensor(), at::Tensor()};  // no gradient for the extra input and `call`
    // float16 gradients are sent as float32, because their sums, multiplied by samples, can exceed float16 on some
    // rank.
    const at::ScalarType dtype = gradients.front().scalar_type();
    const double factor = unit.value_or(1);
    variable_list sent;  // multiplied by the factor that the ranks agreed on
    for (const at::Tensor& gradient : gradients) {
      const at::Tensor wide = dtype == at::kHalf ? gradient.to(at::kFloat) : gradient;
      sent.push_back(factor == 1 ? wide : wide.mul(exact_factor(factor)));
    }
    for (const at::Tensor& gradient : at::GradMode::is_enabled() ? record(adjoint, sent) : adjoint.forward(sent)) {
      result.push_back((factor == 1 ? gradient : gradient.div(factor)).to(dtype));
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

/// Runs the call, and records it for the backward pass if a tensor of any rank needs a gradient. `forms`: of the
/// tensors of all ranks (1).
std::vector<at::Tensor> run(const CollectiveCall& call, const std::vector<at::Tensor>& given,
                            const std::vector<Form>& forms) {
  if (!any_has(&Form::requires_grad, forms) || !at::GradMode::is_enabled()) return call.forward(given);
  auto results = record(call, given);
  if (any_has(&Form::narrow_gradients, forms)) mark_collective(results.front(), call.comm);
  return results;
}

/// The forms of `parts`. If there is not one defined part for each rank, the forms carry this fault.
std::vector<Form> forms_of(const std::vector<at::Tensor>& parts, const Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const bool all_defined = std::ranges::all_of(parts, [](const at::Tensor& part) { return part.defined(); });
  if (parts.size() != ranks || !all_defined)
    return std::vector<Form>(ranks, {.fault = Form::kOtherCount, .dims = std::ssize(parts)});
  std::vector<Form> forms;
  for (const at::Tensor& part : parts) forms.push_back(form_of(part));
  return forms;
}

}  // namespace

at::Tensor all_gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& rows) {
  const std::vector<Form> forms = gather_forms(*comm, {form_of(rows)}, "all_gather");
  check_alike(forms, 1, 1, "all_gather");
  Sizes counts;
  for (const Form& form : forms) counts.push_back(form.sizes[0]);
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return std::vector{gather_rows(given[0], counts, *comm)}; },
      [=](const auto& gradients) { return std::vector{sum_rows(gradients[0], counts, *comm)}; },
  };
  return run(call, {rows}, forms).front();
}

at::Tensor all_reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor) {
  const std::vector<Form> forms = gather_forms(*comm, {form_of(tensor)}, "all_reduce");
  check_alike(forms, 1, 0, "all_reduce");
  const auto sum = [=](const auto& given) { return std::vector{sum_all(given[0], *comm)}; };
  return run({comm, sum, sum}, {tensor}, forms).front();
}

at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts) {
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::vector<Form> forms = gather_forms(*comm, forms_of(parts, *comm), "reduce_scatter");
  check_alike(forms, 1, 1, "reduce_scatter");
  Sizes counts;
  for (std::size_t r = 0; r < ranks; ++r) {
    counts.push_back(forms[r].sizes[0]);
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
  const std::vector<Form> forms = gather_forms(*comm, {comm->rank() == root ? form_of(tensor) : Form()}, "broadcast");
  const Form form = root < 0 || root >= comm->size() ? Form{} : forms[static_cast<std::size_t>(root)];
  if (form.dtype < 0)
    throw ArgumentError("broadcast from root " + std::to_string(root) + ": that rank gave no tensor", true);
  const bool is_root = comm->rank() == root;
  const CollectiveCall call{
      comm,
      [=](const auto& given) {
        const auto options =
            at::TensorOptions(static_cast<at::ScalarType>(form.dtype)).device(c10::Device(comm->device()));
        at::Tensor result =
            is_root ? given[0].detach().clone(at::MemoryFormat::Contiguous) : at::empty(form.shape(), options);
        comm->bcast(result, root);
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
  const std::vector<Form> forms = gather_forms(*comm, forms_of(parts, *comm), "alltoall");
  const auto send = [=](const auto& given) { return alltoall_tensors(*comm, given); };
  return run({comm, send, send}, parts, forms);
}

}  // namespace mn
