#include <mn/gradients/sparse_gradients.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// Converts 16-bit numbers to float32, because their sums are computed in float32. Returns all other numbers unchanged.
at::Tensor widened(const at::Tensor& values) { return values.element_size() == 2 ? values.to(at::kFloat) : values; }

/// Returns a sparse gradient of `parameter`. If several entries belong to one row, they are added up. The sums are
/// divided by `divisor`.
at::Tensor sum_rows(const at::Tensor& indices, const at::Tensor& values, const at::Tensor& parameter, double divisor) {
  const at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices, widened(values), parameter.sizes()).coalesce();
  at::Tensor sums = sum._values();
  if (divisor != 1) sums.mul_(1 / divisor);
  return at::_sparse_coo_tensor_unsafe(sum._indices(), sums.to(parameter.scalar_type()), parameter.sizes())
      ._coalesced_(true);
}

at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.contiguous().flatten().view(at::kByte); }

/// Returns a copy of the tensor that begins at byte `first` of a message, because the alignment in the message may be
/// wrong. Moves `first` to the next tensor.
at::Tensor next_in(const at::Tensor& message, std::int64_t& first, at::IntArrayRef shape, at::ScalarType dtype) {
  const std::int64_t bytes = c10::multiply_integers(shape) * static_cast<std::int64_t>(c10::elementSize(dtype));
  return message.narrow(0, std::exchange(first, first + bytes), bytes).clone().view(dtype).view(shape);
}

}  // namespace

std::vector<std::int64_t> SparseGradients::Part::shape_of_values(const at::Tensor& parameter) const {
  std::vector<std::int64_t> shape = {entries};  // then the dense dimensions
  shape.insert(shape.end(), parameter.sizes().begin() + sparse_dims, parameter.sizes().end());
  return shape;
}

std::size_t SparseGradients::Part::bytes(const at::Tensor& parameter) const {
  const std::int64_t elements = c10::multiply_integers(shape_of_values(parameter));
  return static_cast<std::size_t>(entries * sparse_dims) * sizeof(std::int64_t) +
         static_cast<std::size_t>(elements) * parameter.element_size();
}

SparseGradients::SparseGradients(std::vector<at::Tensor> parameters, Flags flags, Communicator& comm)
    : parameters_(std::move(parameters)), flags_(std::move(flags)), comm_(comm) {
  flags_.resize(parameters_.size());
}

void SparseGradients::learn(const Own& own) {
  std::vector<std::uint8_t> sparse(parameters_.size());
  for (const auto& [i, gradient] : own.gradients) sparse[i] = gradient.is_sparse() ? 1 : 0;
  comm_.allreduce(std::span(sparse), ReduceOp::kMax);
  for (std::size_t i = 0; i < sparse.size(); ++i) flags_[i] = flags_[i] || sparse[i] != 0;
}

SparseGradients::Gradients SparseGradients::mean(const Own& own, double divisor) {
  Gradients means;
  if (comm_.size() == 1) {  // invariant 4: the mean is the rank's own gradient
    const double factor = own.factor / divisor;
    // The gradient is not multiplied in place, because it may share its values with the autograd graph.
    for (const auto& [i, gradient] : own.gradients) {
      means[i] = factor == 1 ? gradient : times_factor(gradient, factor);
    }
    return means;
  }
  if (std::ranges::find(flags_, true) == flags_.end()) return means;
  const double sum_of_divisors = divisor * comm_.size();
  const Own rows = merged(own);
  Parts parts = agree(rows);
  for (const auto& [i, of_ranks] : parts) {
    const bool any_dense = std::ranges::find(of_ranks, Part::kDense, &Part::form) != of_ranks.end();
    if (any_dense) means[i] = dense_mean(i, rows, sum_of_divisors);  // invariant 3: one dense gradient suffices
  }
  std::erase_if(parts, [&](const auto& part) { return means.contains(part.first); });
  if (!parts.empty()) add_sparse_means(parts, rows.gradients, sum_of_divisors, means);
  return means;
}

/// Returns `own`, but with each row of a gradient only once: entries of one row are added up.
SparseGradients::Own SparseGradients::merged(const Own& own) const {
  Own rows = own;
  for (auto& [i, gradient] : rows.gradients) {
    if (!gradient.is_sparse() || gradient.sizes() != parameters_[i].sizes()) continue;
    gradient = sum_rows(gradient._indices(), gradient._values(), parameters_[i], 1);
  }
  return rows;
}

SparseGradients::Part SparseGradients::part_of(std::size_t i, const Own& own) const {
  const auto found = own.gradients.find(i);
  if (found == own.gradients.end()) return {};
  const at::Tensor& gradient = found->second;
  if (gradient.sizes() != parameters_[i].sizes()) return {.form = Part::kMisshapen};
  if (!gradient.is_sparse()) return {.form = Part::kDense, .factor = own.factor};
  // In debug mode the communicator searches dense gradients for nan and inf, but not sparse gradients. These are
  // searched here.
  if (comm_.debug() && !gradient._values().isfinite().all().item<bool>()) return {.form = Part::kNotFinite};
  return {Part::kSparse, gradient._nnz(), gradient.sparse_dim(), own.factor};
}

SparseGradients::Parts SparseGradients::agree(const Own& own) const {
  std::vector<std::size_t> members;
  std::vector<Part> mine;
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (!flags_[i]) continue;
    members.push_back(i);
    mine.push_back(part_of(i, own));
  }
  std::vector<Part> all(mine.size() * static_cast<std::size_t>(comm_.size()));  // [ranks, members]
  comm_.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  Parts parts;
  for (std::size_t k = 0; k < members.size(); ++k) {
    std::vector<Part> of_ranks;
    for (std::size_t at = k; at < all.size(); at += members.size()) of_ranks.push_back(all[at]);
    check(members[k], of_ranks);
    const auto is_there = [](const Part& part) { return part.form != Part::kNone; };
    if (std::ranges::any_of(of_ranks, is_there)) parts[members[k]] = std::move(of_ranks);
  }
  return parts;
}

/// Throws ArgumentError if the gradients of parameter i cannot be added up over the ranks.
void SparseGradients::check(std::size_t i, const std::vector<Part>& parts) const {
  std::int64_t sparse_dims = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Part& part = parts[rank];
    if (sparse_dims == 0) sparse_dims = part.sparse_dims;
    const char* const fault = part.form == Part::kMisshapen   ? "does not have the parameter's shape"
                              : part.form == Part::kNotFinite ? "has nan or inf"
                              : part.form == Part::kSparse && part.sparse_dims != sparse_dims
                                  ? "has other sparse dimensions than on the ranks before"
                                  : nullptr;
    if (fault == nullptr) continue;
    throw ArgumentError(
        "the sparse gradient of " + tensor_name(parameters_[i], i) + " " + fault + " on rank " + std::to_string(rank),
        true);
  }
}

at::Tensor SparseGradients::dense_mean(std::size_t i, const Own& own, double sum_of_divisors) {
  const at::Tensor& parameter = parameters_[i];
  at::Tensor sum = at::zeros(parameter.sizes(), widened(at::empty({0}, parameter.options())).options());
  if (const auto found = own.gradients.find(i); found != own.gradients.end()) sum.add_(found->second).mul_(own.factor);
  comm_.allreduce(sum);
  bytes_sent_ += sum.nbytes();
  return sum.mul_(1 / sum_of_divisors).to(parameter.scalar_type());
}

/// Collective. Returns the entries of all ranks as bytes, in rank order. The entries of a rank are in the order of the
/// parameters. For each parameter the indices come first, then the values.
at::Tensor SparseGradients::gather(const Parts& parts, const Gradients& own) {
  const auto options = at::TensorOptions(at::kByte).device(c10::Device(comm_.device()));
  std::vector<at::Tensor> pieces = {at::empty({0}, options)};
  std::vector<std::size_t> bytes(static_cast<std::size_t>(comm_.size()));
  for (const auto& [i, of_ranks] : parts) {
    for (std::size_t rank = 0; rank < bytes.size(); ++rank) bytes[rank] += of_ranks[rank].bytes(parameters_[i]);
    const auto found = own.find(i);
    if (found == own.end()) continue;
    pieces.push_back(as_bytes(found->second._indices()));
    pieces.push_back(as_bytes(found->second._values()));
  }
  const at::Tensor mine = at::cat(pieces);
  const at::Tensor all = at::empty({std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})}, options);
  comm_.allgatherv(mine, all, bytes);
  bytes_sent_ += mine.nbytes();
  return all;
}

void SparseGradients::add_sparse_means(const Parts& parts, const Gradients& own, double sum_of_divisors,
                                       Gradients& means) {
  const at::Tensor message = gather(parts, own);
  std::map<std::size_t, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> rows;
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(comm_.size()); ++rank) {
    for (const auto& [i, of_ranks] : parts) {
      const Part& part = of_ranks[rank];
      if (part.form == Part::kNone) continue;
      auto& [indices, values] = rows[i];
      indices.push_back(next_in(message, first, {part.sparse_dims, part.entries}, at::kLong));
      const at::Tensor of_rank =
          next_in(message, first, part.shape_of_values(parameters_[i]), parameters_[i].scalar_type());
      values.push_back(widened(of_rank));
      if (part.factor != 1) values.back().mul_(part.factor);
    }
  }
  for (const auto& [i, all] : rows) {
    means[i] = sum_rows(at::cat(all.first, 1), at::cat(all.second), parameters_[i], sum_of_divisors);  // (2): in order
  }
}

std::vector<at::Tensor> without_sparse(std::vector<at::Tensor> parameters, const SparseGradients::Flags& flags) {
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) parameters[i] = at::empty({0}, parameters[i].options());
  }
  return parameters;
}

}  // namespace mn
