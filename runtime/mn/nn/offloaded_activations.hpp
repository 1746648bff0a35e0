/// Keeps activations in the host's memory between forward and backward.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/core/buffer.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

class ActivationStore;

/// While an object lives, tensors that the calling thread saves for backward move to page-locked memory of the host
/// (Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857). Backward brings each back before an operator uses it.
/// Copies overlap with computation. The results are equal bits.
///
///   at::Tensor loss;
///   {
///     const mn::OffloadedActivations offloaded(*model, comm->device());
///     loss = compute_loss(*model, batch);
///   }
///   loss.backward();
///
/// Moves a storage of at least 1 MiB once, however many saved tensors share it. Parameters and buffers of the model,
/// autocast's copies of parameters, and small parts of larger storages stay on the device. At most four storages are on
/// their way in each direction; they need memory of the device. A saved tensor may not change before backward, as
/// always. CUDA graphs cannot record it. No effect on CPUs, without gradient mode, and on the second forward of
/// recompute_activations().
class OffloadedActivations {
 public:
  /// Local. The first object on a GPU replaces the autograd engine of the process by an engine with hooks on saved
  /// tensors. Throws UsageError if that happens in a backward; other threads may not run a backward then either.
  OffloadedActivations(const torch::nn::Module& model, Device device);
  ~OffloadedActivations();
  OffloadedActivations(const OffloadedActivations&) = delete;             ///< not copyable
  OffloadedActivations& operator=(const OffloadedActivations&) = delete;  ///< not copyable

  /// Bytes that have moved to the host so far.
  [[nodiscard]] std::uint64_t bytes_moved() const noexcept;

 private:
  std::shared_ptr<ActivationStore> store_;     // null on CPUs
  std::shared_ptr<ActivationStore> previous_;  // of an outer object
};

}  // namespace mn
