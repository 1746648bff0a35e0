/// Lets an optimizer leave out a step if only the device knows that the step's gradients overflowed. Internal.
///
/// The host goes on as if the step were made: it counts the step and enqueues the update, which then changes no
/// parameter. settle() corrects the counts.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

namespace mn {

/// An optimizer that can leave out a step on its device.
class SkipsOverflows {
 public:
  virtual ~SkipsOverflows() = default;
  /// True if the optimizer can leave out steps with its present options.
  [[nodiscard]] virtual bool can_skip() const { return true; }
  /// The next step() changes no parameter if `has_overflow`, a float32 of one element on the parameters' device, is 1.
  void skip_if(at::Tensor has_overflow) { has_overflow_ = std::move(has_overflow); }
  /// Corrects the optimizer's state to count the steps that were made. Waits for the device.
  virtual void settle() {}

 protected:
  /// Returns the tensor of skip_if() and forgets it; undefined if the step is made in any case.
  [[nodiscard]] at::Tensor take_overflow() { return std::exchange(has_overflow_, {}); }

 private:
  at::Tensor has_overflow_;
};

/// The number of updates of each parameter, counted on its device and on the host.
class StepCounts {
 public:
  /// A new step begins.
  void begin_step() noexcept { ++steps_; }
  /// The device's count before a step, whose count on the host is `count`. The caller adds 1 to the device's count.
  at::Tensor before_step(const at::Tensor& parameter, std::int64_t count) {
    Entry& entry = entries_[parameter.unsafeGetTensorImpl()];
    // The counts differ if a checkpoint was loaded.
    if (!entry.on_device.defined() || entry.on_host != count) {
      entry.on_device = at::full({}, count, at::TensorOptions(at::kFloat).device(parameter.device()));
    }
    entry.on_host = count + 1;
    entry.last_step = steps_;
    return entry.on_device;
  }
  /// A CUDA graph holds the last step.
  void keep_step() {
    for (auto& [parameter, entry] : entries_) entry.is_in_graph = entry.last_step == steps_;
  }
  /// The graph has made the step again: calls counted(parameter, count) for each parameter in the graph.
  template <class Counted>
  void count_replay(const Counted& counted) {
    for (auto& [parameter, entry] : entries_) {
      if (entry.is_in_graph) counted(parameter, ++entry.on_host);
    }
  }
  /// Calls correct(parameter, count on the device) for each parameter. Waits for the device.
  template <class Correct>
  void settle(const Correct& correct) {
    if (entries_.empty()) return;
    std::vector<at::Tensor> counts;
    for (const auto& [parameter, entry] : entries_) counts.push_back(entry.on_device);
    const at::Tensor on_host = at::stack(counts).cpu();
    const float* next = on_host.const_data_ptr<float>();
    for (auto& [parameter, entry] : entries_) {
      entry.on_host = static_cast<std::int64_t>(*next++);
      correct(parameter, entry.on_host);
    }
  }

 private:
  struct Entry {
    at::Tensor on_device;
    std::int64_t on_host = 0;
    std::uint64_t last_step = 0;  // value of steps_ at the last update
    bool is_in_graph = false;
  };
  std::unordered_map<c10::TensorImpl*, Entry> entries_;
  std::uint64_t steps_ = 0;
};

}  // namespace mn
