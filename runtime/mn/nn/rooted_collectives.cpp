// The differentiable collective calls with a root. Broadcast and reduce are adjoint to each other, and so are scatter
// and gather.
//
// gather() and reduce() have a result on the root only. The other ranks get a delegate, the number 0; its gradient only
// lets autograd run the node of the call.
#include <mn/nn/collectives.hpp>

#include <cstddef>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/nn/collective_call.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using Form = CollectiveForm;
using Tensors = std::vector<at::Tensor>;

/// A call's root, as its communicator sees it.
struct Root {
  std::shared_ptr<Communicator> comm;
  int rank;

  [[nodiscard]] bool is_here() const { return comm->rank() == rank; }
  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(rank); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm->size()); }

  /// Collective: agrees on the ranks' forms. Throws on all ranks unless all pass the same root, which is a rank.
  [[nodiscard]] std::vector<Form> agree(std::vector<Form> own, const char* call) const {
    for (Form& form : own) form.tensor.number = rank;
    const std::size_t count = own.size();
    const std::vector<Form> forms = agree_on_forms(comm, own, call);
    const auto root_of = [&](std::size_t r) { return std::to_string(forms[r * count].tensor.number); };
    for (std::size_t r = 1; r < ranks(); ++r) {
      if (forms[r * count].tensor.number == forms[0].tensor.number) continue;
      throw ArgumentError(std::string(call) + ": rank 0 gave root " + root_of(0) + ", rank " + std::to_string(r) +
                              " root " + root_of(r),
                          true);
    }
    if (rank >= 0 && rank < comm->size()) return forms;
    throw ArgumentError(std::string(call) + ": the root " + std::to_string(rank) +
                            " is not a rank: there are ranks 0 " + "to " + std::to_string(comm->size() - 1),
                        true);
  }
};

at::Tensor new_delegate(const at::Tensor& x) { return at::zeros({}, x.options().dtype(at::kFloat)); }

/// Copies the root's tensor, of form `form`, to every rank.
at::Tensor copy_from(const Root& root, const Tensors& given, const MessageForm& form) {
  const at::Tensor result = root.is_here() ? given[0].detach().clone(at::MemoryFormat::Contiguous)
                                           : form.empty_on(c10::Device(root.comm->device()));
  form.by_device != 0 ? ordered_bcast(*root.comm, result, root.rank) : root.comm->bcast(result, root.rank);
  return result;
}

/// Returns the sum over ranks on the root, and an undefined tensor on the other ranks.
at::Tensor sum_on(const Root& root, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = tensor.detach().contiguous();
  const at::Tensor sum = root.is_here() ? at::empty_like(own) : at::Tensor();
  ordered_reduce(*root.comm, own, sum, root.rank);
  return sum;
}

/// Sends the root's tensors to the ranks; `form` is the form of this rank's tensor.
at::Tensor part_from(const Root& root, const Tensors& given, const MessageForm& form, bool by_device) {
  std::vector<MessageForm> from(root.ranks());
  from[root.index()] = form;
  return exchange(root.is_here() ? given : Tensors(root.ranks()), from, by_device, *root.comm)[root.index()];
}

/// Returns the tensors of all ranks on the root, and undefined tensors on the other ranks.
Tensors parts_on(const Root& root, const at::Tensor& own, const std::vector<MessageForm>& forms, bool by_device) {
  Tensors sent(root.ranks());
  sent[root.index()] = own;
  return exchange(sent, root.is_here() ? forms : std::vector<MessageForm>(root.ranks()), by_device, *root.comm);
}

/// Runs a call that has results on the root only. Delegates require a gradient also if the call was not recorded, so
/// that a program may always call backward().
Tensors run_to(const Root& root, const CollectiveCall& call, const at::Tensor& own, const std::vector<Form>& forms) {
  Tensors results = run_collective(call, {own}, forms);
  if (!root.is_here() && !results[0].requires_grad()) results[0].requires_grad_(at::GradMode::is_enabled());
  return results;
}

}  // namespace

at::Tensor broadcast(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root_rank) {
  require_communicator(comm, "broadcast");
  const Root root{comm, root_rank};
  const std::vector<Form> forms = root.agree({Form::of(*comm, root.is_here() ? tensor : at::Tensor())}, "broadcast");
  const MessageForm form = forms[root.index()].tensor;
  if (form.dtype < 0)
    throw ArgumentError("broadcast from root " + std::to_string(root_rank) + ": that rank gave no tensor", true);
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return Tensors{copy_from(root, given, form)}; },
      [=](const auto& gradients) {
        at::Tensor sum = sum_on(root, gradients[0]);
        return root.is_here() ? Tensors{sum} : Tensors();
      },
      "broadcast",
  };
  return run_collective(call, root.is_here() ? Tensors{tensor} : Tensors(), forms).front();
}

at::Tensor reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root_rank) {
  require_communicator(comm, "reduce");
  const Root root{comm, root_rank};
  const std::vector<Form> forms = root.agree({Form::of(*comm, tensor)}, "reduce");
  check_alike(forms, 1, 0, "reduce");
  const MessageForm of_gradient = of_gradients(message_forms(forms))[root.index()];
  const CollectiveCall call{
      comm,
      [=](const auto& given) {
        at::Tensor sum = sum_on(root, given[0]);
        return Tensors{root.is_here() ? sum : new_delegate(given[0])};
      },
      [=](const auto& gradients) { return Tensors{copy_from(root, gradients, of_gradient)}; },
  };
  return run_to(root, call, tensor, forms).front();
}

std::vector<at::Tensor> gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root_rank) {
  require_communicator(comm, "gather");
  const Root root{comm, root_rank};
  const std::vector<Form> forms = root.agree({Form::of(*comm, tensor)}, "gather");
  check_defined(forms, "gather");
  const bool by_device = all_by_device(forms);
  const std::vector<MessageForm> values = message_forms(forms), gradients = of_gradients(values);
  const MessageForm own = gradients[static_cast<std::size_t>(comm->rank())];
  const auto move = [=](const std::vector<MessageForm>& parts) {
    return [=](const auto& given) {
      Tensors all = parts_on(root, given[0], parts, by_device);
      return root.is_here() ? all : Tensors{new_delegate(given[0])};
    };
  };
  const CollectiveCall call{comm, move(values),
                            [=](const auto& given) { return Tensors{part_from(root, given, own, by_device)}; }, nullptr,
                            move(gradients)};
  return run_to(root, call, tensor, forms);
}

at::Tensor scatter(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts, int root_rank) {
  require_communicator(comm, "scatter");
  const Root root{comm, root_rank};
  const std::vector<Form> own =
      root.is_here() ? forms_of(parts, *comm) : std::vector<Form>(root.ranks(), Form::of(*comm, at::Tensor()));
  const std::vector<Form> all = root.agree(own, "scatter");
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(root.index() * root.ranks());
  const std::vector<Form> forms(first, first + static_cast<std::ptrdiff_t>(root.ranks()));  // of the root's parts
  const bool by_device = all_by_device(forms);
  const std::vector<MessageForm> values = message_forms(forms), gradients = of_gradients(values);
  const MessageForm form = values[static_cast<std::size_t>(comm->rank())];
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return Tensors{part_from(root, given, form, by_device)}; },
      [=](const auto& given) {
        Tensors sums = parts_on(root, given[0], gradients, by_device);
        return root.is_here() ? sums : Tensors();
      },
      "scatter",
  };
  return run_collective(call, root.is_here() ? parts : Tensors(), all).front();
}

}  // namespace mn
