#include <mn/trainer/running_statistics.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr std::string_view kMean = "running_mean", kVariance = "running_var";

auto find_name(const NamedTensors& tensors, const std::string& name) {
  return std::ranges::find(tensors, name, &NamedTensors::value_type::first);
}

std::optional<std::size_t> mean_of_variance(const std::string& name, const at::Tensor& variance,
                                            const NamedTensors& statistics) {
  if (!name.ends_with(kVariance)) return std::nullopt;
  const auto found = find_name(statistics, name.substr(0, name.size() - kVariance.size()) + std::string(kMean));
  if (found == statistics.end() || found->second.sizes() != variance.sizes()) return std::nullopt;
  return static_cast<std::size_t>(found - statistics.begin());
}

}  // namespace

std::vector<AveragedBuffer> averaged_buffers(const torch::nn::Module& model, const std::vector<std::string>& also) {
  const NamedTensors statistics = running_statistics(model);
  std::vector<AveragedBuffer> all;
  for (const auto& [name, buffer] : statistics) all.push_back({buffer, mean_of_variance(name, buffer, statistics)});
  const NamedTensors buffers = named_buffers(model);
  for (const std::string& name : also) {
    const auto found = find_name(buffers, name);
    if (found == buffers.end() || !found->second.is_floating_point()) {
      throw ArgumentError("the buffer \"" + name + "\" can't be averaged: the model has no floating-point buffer of " +
                          "that name");
    }
    if (find_name(statistics, name) == statistics.end()) all.push_back({found->second});
  }
  return all;
}

void add_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].mean) at::Tensor(values[i]).add_(values[*buffers[i].mean].square());
  }
}

void subtract_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].mean) at::Tensor(values[i]).sub_(values[*buffers[i].mean].square());
  }
}

// The sums are computed in float64. In float32, the squares of large means would round the variance away, and an
// average of equal values could differ from these values in its last bits.
void average_over_ranks(const std::vector<AveragedBuffer>& buffers, Communicator& comm) {
  if (comm.size() == 1 || buffers.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const AveragedBuffer& each : buffers) values.push_back(each.buffer.flatten().to(at::kDouble, false, true));
  add_squared_means(buffers, values);
  at::Tensor all = at::cat(values);
  comm.allreduce(all);
  all.div_(comm.size());
  std::int64_t first = 0;
  for (at::Tensor& each : values) {
    each = all.narrow(0, first, each.numel());
    first += each.numel();
  }
  subtract_squared_means(buffers, values);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].mean) values[i].clamp_min_(0);
    at::Tensor(buffers[i].buffer).copy_(values[i].view_as(buffers[i].buffer));
  }
}

}  // namespace mn
