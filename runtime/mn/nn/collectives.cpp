// The differentiable collective calls without a root. Each call is one autograd node (collective_call.hpp).
//
// Parts of different lengths are padded to the longest part. gather_rows() and sum_rows() are adjoint to each other.
#include <mn/nn/collectives.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <mn/nn/collective_call.hpp>
#include <mn/tensor/ordered_calls.hpp>

namespace mn {
namespace {

using Sizes = std::vector<std::int64_t>;
using Form = CollectiveForm;

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

}  // namespace

at::Tensor all_gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& rows) {
  require_communicator(comm, "all_gather");
  const std::vector<Form> forms = agree_on_forms(comm, {Form::of(*comm, rows)}, "all_gather");
  check_alike(forms, 1, 1, "all_gather");
  Sizes counts;
  for (const Form& form : forms) counts.push_back(form.tensor.sizes[0]);
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return std::vector{gather_rows(given[0], counts, *comm)}; },
      [=](const auto& gradients) { return std::vector{sum_rows(gradients[0], counts, *comm)}; },
  };
  return run_collective(call, {rows}, forms).front();
}

std::vector<at::Tensor> allgather(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor) {
  require_communicator(comm, "allgather");
  const std::vector<Form> forms = agree_on_forms(comm, {Form::of(*comm, tensor)}, "allgather");
  check_defined(forms, "allgather");
  const bool by_device = all_by_device(forms);
  const std::vector<MessageForm> values = message_forms(forms), gradients = of_gradients(values);
  const std::vector<MessageForm> own(values.size(), gradients[static_cast<std::size_t>(comm->rank())]);
  const auto move = [comm, by_device](std::vector<MessageForm> from) {
    return [=](const auto& given) {
      const std::vector<at::Tensor> sent(from.size(), given[0].detach().contiguous());
      return exchange(sent, from, by_device, *comm);
    };
  };
  const auto sum = [=](const auto& given) {
    return std::vector{at::stack(exchange(given, own, by_device, *comm)).sum(0)};
  };
  return run_collective({comm, move(values), sum, nullptr, move(gradients)}, {tensor}, forms);
}

at::Tensor all_reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor) {
  require_communicator(comm, "all_reduce");
  const std::vector<Form> forms = agree_on_forms(comm, {Form::of(*comm, tensor)}, "all_reduce");
  check_alike(forms, 1, 0, "all_reduce");
  const auto sum = [=](const auto& given) { return std::vector{sum_all(given[0], *comm)}; };
  return run_collective({comm, sum, sum}, {tensor}, forms).front();
}

at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts) {
  require_communicator(comm, "reduce_scatter");
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::vector<Form> forms = agree_on_forms(comm, forms_of(parts, *comm), "reduce_scatter");
  check_alike(forms, 1, 1, "reduce_scatter", ranks);
  Sizes counts;
  for (std::size_t r = 0; r < ranks; ++r) {
    counts.push_back(forms[r].tensor.sizes[0]);
    check_alike({forms.begin() + static_cast<std::ptrdiff_t>(r), forms.end()}, ranks, 0, "reduce_scatter", ranks);
  }
  const CollectiveCall call{
      comm,
      [=](const auto& given) { return std::vector{sum_rows(at::cat(given), counts, *comm)}; },
      [=](const auto& gradients) { return gather_rows(gradients[0], counts, *comm).split_with_sizes(counts); },
  };
  return run_collective(call, parts, forms).front();
}

std::vector<at::Tensor> alltoall(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts) {
  require_communicator(comm, "alltoall");
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
  return run_collective(call, parts, forms);
}

}  // namespace mn
