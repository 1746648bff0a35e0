#include <mn/gradients/compression/top_k_compressor.hpp>

#include <cmath>
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

std::vector<bool> large_enough(const std::vector<at::Tensor>& parameters) {
  std::vector<bool> compressed;
  for (const auto& parameter : parameters) {
    compressed.push_back(parameter.numel() >= TopKCompressor::kSmallest && parameter.numel() <= kLargest);
  }
  return compressed;
}

/// A rank sends its choice of elements as an int32 tensor [2, elements]. Row 0 holds the indices of the chosen
/// elements; row 1 holds the bits of their float32 values.
at::Tensor indices_in(const at::Tensor& choice) { return choice[0]; }
at::Tensor values_in(const at::Tensor& choice) { return choice[1].view(at::kFloat); }

}  // namespace

TopKCompressor::TopKCompressor(const std::vector<at::Tensor>& parameters, double density, std::shared_ptr<Trace> trace)
    : ErrorFeedback(parameters, large_enough(parameters), std::move(trace)), density_(density) {}

std::int64_t TopKCompressor::count_of(std::size_t i) const {
  return static_cast<std::int64_t>(std::ceil(density_ * static_cast<double>(parameters()[i].numel())));
}

void TopKCompressor::reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) {
  const auto options = at::TensorOptions(at::kInt).device(comm.device());
  const at::Tensor own = choose(members, options);
  const at::Tensor all = at::empty({comm.size(), 2, own.size(1)}, options);
  allgather(own, all, comm);
  add_choices(all, members, gradients);
}

/// Moves the elements of largest magnitude from next_residual() to the tensor that the calling rank sends.
at::Tensor TopKCompressor::choose(const std::vector<std::size_t>& members, at::TensorOptions options) {
  std::int64_t total = 0;
  for (const std::size_t i : members) total += count_of(i);
  at::Tensor own = at::empty({2, total}, options);
  std::int64_t first = 0;
  for (const std::size_t i : members) {
    const std::int64_t count = count_of(i);
    const at::Tensor indices = std::get<1>(next_residual(i).abs().topk(count, 0, true, false));
    indices_in(own).narrow(0, first, count).copy_(indices);
    values_in(own).narrow(0, first, count).copy_(next_residual(i).index_select(0, indices));
    next_residual(i).index_fill_(0, indices, 0);
    first += count;
  }
  return own;
}

/// Sets each gradient to the mean over ranks of the chosen elements. `all` holds the choices of all ranks, in the shape
/// [ranks, 2, elements].
void TopKCompressor::add_choices(const at::Tensor& all, const std::vector<std::size_t>& members,
                                 FlatBuffer& gradients) const {
  const std::int64_t ranks = all.size(0);
  std::int64_t first = 0;
  for (const std::size_t i : members) {
    const std::int64_t count = count_of(i);
    const at::Tensor& mean = gradient(gradients, i);
    mean.zero_();
    for (std::int64_t r = 0; r < ranks; ++r) {  // invariant 1: in rank order; therefore all ranks get the same sum
      mean.index_add_(0, indices_in(all[r]).narrow(0, first, count), values_in(all[r]).narrow(0, first, count));
    }
    mean.mul_(1.0 / static_cast<double>(ranks));
    first += count;
  }
}

}  // namespace mn
