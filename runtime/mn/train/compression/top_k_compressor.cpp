#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/tensor/tensor.hpp>
#include <mn/train/compression/top_k_compressor.hpp>

namespace mn {
namespace {

// An index travels in 32 bits.
constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

std::vector<bool> which(const std::vector<at::Tensor>& parameters) {
  std::vector<bool> compressed;
  for (const auto& parameter : parameters) {
    compressed.push_back(parameter.numel() >= TopKCompressor::kSmallest && parameter.numel() <= kLargest);
  }
  return compressed;
}

}  // namespace

TopKCompressor::TopKCompressor(const std::vector<at::Tensor>& parameters, double density, std::shared_ptr<Trace> trace)
    : ErrorFeedback(parameters, which(parameters), std::move(trace)), density_(density) {}

std::int64_t TopKCompressor::chosen_of(std::size_t i) const {
  return static_cast<std::int64_t>(std::ceil(density_ * static_cast<double>(parameters()[i].numel())));
}

void TopKCompressor::reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) {
  std::int64_t total = 0;
  for (const std::size_t i : members) total += chosen_of(i);
  const auto options = at::TensorOptions(at::kInt).device(comm.device());
  const at::Tensor own = at::empty({2, total}, options);  // indices, then the bits of the values
  const at::Tensor all = at::empty({comm.size(), 2, total}, options);
  const auto values_in = [](const at::Tensor& choice) { return choice[1].view(at::kFloat); };

  std::int64_t first = 0;
  for (const std::size_t i : members) {
    const std::int64_t count = chosen_of(i);
    const at::Tensor places = std::get<1>(corrected(i).abs().topk(count, 0, true, false));
    own[0].narrow(0, first, count).copy_(places);
    values_in(own).narrow(0, first, count).copy_(corrected(i).index_select(0, places));
    corrected(i).index_fill_(0, places, 0);
    first += count;
  }
  allgather(own, all, comm);
  first = 0;
  for (const std::size_t i : members) {
    const std::int64_t count = chosen_of(i);
    const at::Tensor& mean = gradient(gradients, i);
    mean.zero_();
    for (int r = 0; r < comm.size(); ++r) {
      mean.index_add_(0, all[r][0].narrow(0, first, count), values_in(all[r]).narrow(0, first, count));
    }
    mean.mul_(1.0 / comm.size());
    first += count;
  }
}

}  // namespace mn
