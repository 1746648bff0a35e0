// Statistics of the union of all ranks' samples, in one reduction: running means and the buffers that were named become
// their mean over ranks; a variance the mean of variances plus the variance of the means, E[v + m²] − E[m]².
//
// Sums are in float64, so that squares of large means do not cancel the variance, and equal values stay as they are.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

constexpr std::string_view kMean = "running_mean", kVariance = "running_var";

struct Averaged {
  at::Tensor buffer;
  std::optional<at::Tensor> mean;  // of a variance
};

std::optional<at::Tensor> mean_of_variance(const std::string& name, const at::Tensor& variance,
                                           const NamedTensors& statistics) {
  if (!name.ends_with(kVariance)) return std::nullopt;
  const std::string partner = name.substr(0, name.size() - kVariance.size()) + std::string(kMean);
  const auto found = std::ranges::find(statistics, partner, &NamedTensors::value_type::first);
  if (found == statistics.end() || found->second.sizes() != variance.sizes()) return std::nullopt;
  return found->second;
}

std::vector<Averaged> averaged_buffers(const torch::nn::Module& model, const std::vector<std::string>& also) {
  const NamedTensors statistics = running_statistics(model);
  std::vector<Averaged> all;
  for (const auto& [name, buffer] : statistics) all.push_back({buffer, mean_of_variance(name, buffer, statistics)});
  const NamedTensors buffers = named_buffers(model);
  for (const std::string& name : also) {
    const auto found = std::ranges::find(buffers, name, &NamedTensors::value_type::first);
    if (found == buffers.end() || !found->second.is_floating_point()) {
      throw ArgumentError("the buffer \"" + name + "\" can't be averaged: the model has no floating-point buffer of " +
                          "that name");
    }
    if (std::ranges::find(statistics, name, &NamedTensors::value_type::first) == statistics.end()) {
      all.push_back({found->second, std::nullopt});
    }
  }
  return all;
}

at::Tensor square_in_double(const at::Tensor& tensor) { return tensor.flatten().to(at::kDouble).square(); }

}  // namespace

void average_buffers(torch::nn::Module& model, Communicator& comm, const std::vector<std::string>& also) {
  const std::vector<Averaged> averaged = averaged_buffers(model, also);
  if (comm.size() == 1 || averaged.empty()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (const Averaged& each : averaged) {
    at::Tensor values = each.buffer.flatten().to(at::kDouble);
    flat.push_back(each.mean ? values + square_in_double(*each.mean) : values);
  }
  at::Tensor all = at::cat(flat);
  comm.allreduce(all);
  all.div_(comm.size());
  const auto write = [&](bool variances) {
    std::int64_t first = 0;
    for (const Averaged& each : averaged) {
      at::Tensor values = all.narrow(0, first, each.buffer.numel());
      first += each.buffer.numel();
      if (each.mean.has_value() != variances) continue;
      if (variances) values = (values - square_in_double(*each.mean)).clamp_min(0);
      each.buffer.copy_(values.view_as(each.buffer));
    }
  };
  write(false);
  write(true);  // they need the means of all ranks
}

void extensions::AllreducePersistent::run(Trainer& trainer) {
  trainer.finish_steps();
  average_buffers(trainer.model(), trainer.communicator(), also_);
}

}  // namespace mn
