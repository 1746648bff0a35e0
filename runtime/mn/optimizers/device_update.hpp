/// Lets an optimizer leave out a step on the device, and lets the trainer record the update in a CUDA graph. Not for
/// programs.
///
/// (1) If only the device knows that a step's gradients overflowed, the host goes on as if the step were made: it
///     counts the step and enqueues the update, which then changes no parameter. settle() corrects the counts.
/// (2) After stay_on_device() all updates read learning rates and counts of steps on the device. Therefore an update
///     inside a graph and an update outside give the same result, bit for bit.
/// (3) All other settings are fixed numbers in the graph. If constants() changes, a new graph is needed.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/optim/optimizer.h>

namespace mn {

/// A learning rate in a form that kernels take: a number, or a tensor of one element on the device.
using Rate = std::variant<double, at::Tensor>;

/// Base class of optimizers whose update runs on the device even if the host does not know whether the step is left
/// out.
class DeviceUpdate {
 public:
  virtual ~DeviceUpdate() = default;
  /// True if the optimizer can leave out steps on the device with its present options.
  [[nodiscard]] virtual bool can_skip() const { return true; }
  /// Decides whether the next step() changes parameters: it changes none if `has_overflow` is 1. `has_overflow` is a
  /// float32 tensor of one element on the parameters' device.
  void skip_if(at::Tensor has_overflow) { has_overflow_ = std::move(has_overflow); }
  /// Corrects the optimizer's state: only steps that changed parameters count. Waits for the device.
  virtual void settle() {}

  /// From now on updates read learning rates and counts of steps on the device (2).
  void stay_on_device() noexcept { is_on_device_ = true; }
  /// Returns the settings that a graph holds as fixed numbers (3). If they change, a new graph is needed.
  [[nodiscard]] virtual std::vector<double> constants() const = 0;
  /// Called after an update was recorded in a graph.
  virtual void keep_captured() {}
  /// Called after a graph has repeated its recorded update. Counts this step on the host, too.
  virtual void count_replay() {}
  /// If learning rates have changed, copies them to the device, in the order of the current stream.
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
  /// Returns the tensor given to skip_if(), and forgets it. If the tensor is undefined, the step is made in any case.
  [[nodiscard]] at::Tensor take_overflow() { return std::exchange(has_overflow_, {}); }
  /// True after stay_on_device().
  [[nodiscard]] bool is_on_device() const noexcept { return is_on_device_; }
  /// Returns the learning rate of group i. On a device the rate is rounded to float32.
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
  at::Tensor has_overflow_;
  bool is_on_device_ = false;
};

}  // namespace mn
