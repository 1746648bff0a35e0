#include "facts/gpu/gpu_view.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

bool is_instance(const VisibleGpu& gpu) { return gpu.uuid.starts_with("MIG-"); }

/// The list with the GPUs at `a` and `b` exchanged.
std::string exchanged(std::vector<VisibleGpu> gpus, std::size_t a, std::size_t b) {
  std::swap(gpus[a], gpus[b]);
  return join(gpus, ",", &VisibleGpu::uuid);
}

}  // namespace

GpuView view_gpus(const std::vector<VisibleGpu>& gpus, const Binding& binding, int intra_rank, bool one_visible) {
  GpuView view;
  if (binding.gpu < 0) return view;
  const auto own = static_cast<std::size_t>(binding.gpu);
  assert(own < gpus.size());
  if (one_visible || binding.gpus_are_shared || std::ranges::any_of(gpus, is_instance)) {
    return {.visible_devices = gpus[own].uuid, .index = 0, .is_alone = true, .is_amd = gpus[own].is_amd};
  }
  view.is_amd = gpus[own].is_amd;
  view.is_alone = binding.sees_alone;
  view.index = view.is_alone ? 0 : intra_rank;
  if (view.index >= static_cast<int>(gpus.size())) view.index = binding.gpu;
  if (view.index != binding.gpu) view.visible_devices = exchanged(gpus, own, static_cast<std::size_t>(view.index));
  return view;
}

}  // namespace mn::launcher
