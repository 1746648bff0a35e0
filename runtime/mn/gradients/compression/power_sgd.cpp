#include <mn/gradients/compression/power_sgd.hpp>

#include <map>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// Chooses the matrices worth compressing. The flag of a parameter is true if its factors P and Q, of `rank` columns
/// each, together have at most half as many elements as the parameter.
std::vector<bool> worth_factoring(const std::vector<at::Tensor>& parameters, std::int64_t rank) {
  std::vector<bool> compressed;
  for (const auto& parameter : parameters) {
    const std::int64_t rows = parameter.dim() >= 2 ? parameter.size(0) : 0;
    const std::int64_t columns = rows > 0 ? parameter.numel() / rows : 0;
    compressed.push_back(rank <= std::min(rows, columns) && 2 * rank * (rows + columns) <= rows * columns);
  }
  return compressed;
}

std::string q_name(std::size_t i) { return "q." + std::to_string(i); }

/// Cuts `memory` into tensors of the given shapes, which lie one after the next.
std::vector<at::Tensor> pieces(const at::Tensor& memory, const std::vector<at::Tensor>& shapes) {
  std::vector<at::Tensor> parts;
  std::int64_t first = 0;
  for (const auto& shape : shapes) {
    parts.push_back(memory.narrow(0, first, shape.numel()).view(shape.sizes()));
    first += shape.numel();
  }
  return parts;
}

/// Copies all tensors into a single tensor, so that one collective call can send all of them.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const auto& tensor : tensors) flat.push_back(tensor.flatten());
  return at::cat(flat);
}

}  // namespace

PowerSgd::PowerSgd(const std::vector<at::Tensor>& parameters, std::int64_t rank, std::shared_ptr<Trace> trace)
    : ErrorFeedback(parameters, worth_factoring(parameters, rank), std::move(trace)),
      rank_(rank),
      q_(parameters.size()),
      next_q_(parameters.size()) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!compressed(i)) continue;
    auto generator = at::detail::createCPUGenerator(i);  // invariant 1: all ranks use the same seed
    q_[i] = at::randn({parameters[i].numel() / parameters[i].size(0), rank_}, generator).to(parameters[i].device());
  }
}

at::Tensor PowerSgd::matrix(const at::Tensor& flat, std::size_t i) const {
  const std::int64_t rows = parameters()[i].size(0);
  return flat.view({rows, flat.numel() / rows});
}

void PowerSgd::reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) {
  std::vector<at::Tensor> p;  // [rows, rank] each: mean of M Q
  for (const std::size_t i : members) p.push_back(matrix(next_residual(i), i).mm(q_[i]));
  const at::Tensor all_p = joined(p);
  average(std::vector<BufferView>{buffer_view(all_p)}, comm);
  p = pieces(all_p, p);

  std::vector<at::Tensor> q;  // [columns, rank] each: mean of Mᵀ P, with P orthogonal
  for (std::size_t k = 0; k < members.size(); ++k) {
    p[k] = std::get<0>(at::linalg_qr(p[k]));
    q.push_back(matrix(next_residual(members[k]), members[k]).t().mm(p[k]));
  }
  const at::Tensor all_q = joined(q);
  average(std::vector<BufferView>{buffer_view(all_q)}, comm);
  q = pieces(all_q, q);

  // The gradient becomes the product P Qᵀ. The residual becomes M, the calling rank's matrix, minus this product.
  for (std::size_t k = 0; k < members.size(); ++k) {
    const std::size_t i = members[k];
    at::Tensor product = matrix(gradient(gradients, i), i);
    at::mm_out(product, p[k], q[k].t());
    next_residual(i).sub_(gradient(gradients, i));
    // Invariant 2: if the new Q is all zeros, the old Q stays. The device makes this choice; therefore the host does
    // not wait.
    next_q_[i] = at::where(q[k].abs().sum() == 0, q_[i], q[k]);
  }
}

void PowerSgd::commit() {
  ErrorFeedback::commit();
  for (std::size_t i = 0; i < q_.size(); ++i) {
    if (used(i)) q_[i] = next_q_[i];
  }
}

NamedTensors PowerSgd::state() const {
  NamedTensors state = ErrorFeedback::state();
  for (std::size_t i = 0; i < q_.size(); ++i) {
    if (q_[i].defined()) state.emplace_back(q_name(i), q_[i]);
  }
  return state;
}

void PowerSgd::load_state(const NamedTensors& state) {
  ErrorFeedback::load_state(state);
  const std::map<std::string, at::Tensor> tensors(state.begin(), state.end());
  for (std::size_t i = 0; i < q_.size(); ++i) {
    if (!q_[i].defined()) continue;
    const auto found = tensors.find(q_name(i));
    if (found == tensors.end()) continue;  // the earlier training did not use PowerSGD; therefore the random Q stays
    if (found->second.sizes() != q_[i].sizes()) {
      throw DataError("the checkpoint's error feedback is of another --compress-rank", true);
    }
    q_[i].copy_(found->second);
  }
}

}  // namespace mn
