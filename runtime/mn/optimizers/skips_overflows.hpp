/// Lets an optimizer leave out a step of which a device alone knows that its gradients overflowed. Internal.
///
/// The host goes on as if the step were made: it counts it, and enqueues the update, which then changes nothing.
/// settle() corrects the counts.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

namespace mn {

/// An optimizer that can leave out such a step.
class SkipsOverflows {
 public:
  virtual ~SkipsOverflows() = default;
  /// Whether it can, with its options as they are.
  [[nodiscard]] virtual bool can_skip() const { return true; }
  /// The next step() changes nothing where `found`, a float32 of one element on the parameters' device, is 1.
  void skip_where(at::Tensor found) { found_ = std::move(found); }
  /// The optimizer's state counts the steps that were made. Waits for the device.
  virtual void settle() {}

 protected:
  /// What skip_where() got; undefined for a step that is made in any case.
  [[nodiscard]] at::Tensor take_found() { return std::exchange(found_, {}); }

 private:
  at::Tensor found_;
};

/// How often each parameter was updated, as its device knows it.
class StepCounts {
 public:
  /// Another step begins.
  void begin_step() noexcept { ++steps_; }
  /// The count before a step, of which the host says `count`; the caller adds the step on both sides.
  at::Tensor before_step(const at::Tensor& parameter, std::int64_t count) {
    Entry& entry = entries_[parameter.unsafeGetTensorImpl()];
    // The host's is another one where a checkpoint was loaded.
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
  /// The graph has made it once more: counted(parameter, count) for each parameter in it.
  template <class Counted>
  void count_replay(const Counted& counted) {
    for (auto& [parameter, entry] : entries_) {
      if (entry.is_in_graph) counted(parameter, ++entry.on_host);
    }
  }
  /// correct(parameter, count) for each. Waits for the device.
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
    std::uint64_t last_step = 0;  // the last of steps_ that updated it
    bool is_in_graph = false;
  };
  std::unordered_map<c10::TensorImpl*, Entry> entries_;
  std::uint64_t steps_ = 0;
};

}  // namespace mn
