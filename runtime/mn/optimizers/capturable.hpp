/// Lets a CUDA graph hold an optimizer's update: numbers that change from step to step lie on the device. Internal.
///
/// (1) After stay_on_device() all updates read learning rates and counts of steps on the device, captured or not, so
///     results are equal bit for bit.
/// (2) All other settings are numbers in the graph: if constants() changes, a new graph is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/optim/optimizer.h>

namespace mn {

/// A learning rate as kernels take it: a number, or a tensor of one element on the device.
using Rate = std::variant<double, at::Tensor>;

/// An optimizer whose update a CUDA graph can hold.
class Capturable {
 public:
  virtual ~Capturable() = default;
  /// From now on updates read rates and counts of steps on the device (1).
  void stay_on_device() noexcept { is_on_device_ = true; }
  /// The settings that a graph holds as numbers (2).
  [[nodiscard]] virtual std::vector<double> constants() const = 0;
  /// A graph holds the last update.
  virtual void keep_captured() {}
  /// The graph has made the captured update again: the host counts the step.
  virtual void count_replay() {}
  /// Copies changed rates to the device, in the order of the current stream.
  void show_rates(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
    const at::NoGradGuard no_grad;
    rates_.resize(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const double rate = groups[i].options().get_lr();
      if (groups[i].params().empty() || (rates_[i].on_device.defined() && rates_[i].shown == rate)) continue;
      if (!rates_[i].on_device.defined()) {
        const c10::Device device = groups[i].params()[0].device();
        rates_[i].on_device = at::full({}, rate, at::TensorOptions(at::kFloat).device(device));
      }
      rates_[i].on_device.fill_(rate);
      rates_[i].shown = rate;
    }
  }

 protected:
  /// True after stay_on_device().
  [[nodiscard]] bool is_on_device() const noexcept { return is_on_device_; }
  /// The rate of group i, on a device rounded to float32.
  [[nodiscard]] Rate rate_of(const std::vector<torch::optim::OptimizerParamGroup>& groups, std::size_t i) {
    const double rate = groups[i].options().get_lr();
    if (is_on_device_) {
      show_rates(groups);
      return rates_[i].on_device;
    }
    const bool on_host = groups[i].params().empty() || groups[i].params()[0].is_cpu();
    return on_host ? rate : static_cast<double>(static_cast<float>(rate));
  }

 private:
  struct Shown {
    at::Tensor on_device;
    double shown = 0;
  };
  std::vector<Shown> rates_;  // [groups]
  bool is_on_device_ = false;
};

}  // namespace mn
