/// The state of libtorch's random numbers on this rank: the CPU's generator and, on a GPU, that device's.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/core/buffer.hpp>
#include <mn/train/safetensors.hpp>

namespace mn {

/// As tensors of bytes, named "random.cpu" and "random.cuda".
[[nodiscard]] NamedTensors random_state(Device device);
/// Continues from a state. What `state` doesn't name is left alone. Throws c10::Error if it is no such state.
void set_random_state(const NamedTensors& state, Device device);

/// What the CPU's generator was seeded with.
[[nodiscard]] std::uint64_t random_seed();
void seed_random(std::uint64_t seed, Device device);

}  // namespace mn
