/// Saves and restores the state of libtorch's random generators on this rank: of the CPU and, if used, of the GPU. Only
/// let_random_numbers_differ() sends something to other ranks.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include <mn/core/buffer.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

class Communicator;

/// Returns the states of the generators as tensors of bytes, named "random.cpu" and "random.cuda".
[[nodiscard]] NamedTensors random_state(Device device);
/// Restores the generators that are named in `state`; all other generators keep their states. Throws c10::Error if the
/// bytes are not the state of a generator.
void set_random_state(const NamedTensors& state, Device device);

/// A hash of the generators' states. Ranks compare hashes to find out whether their states are equal.
[[nodiscard]] std::uint64_t random_state_hash(Device device);

/// The seed of the CPU's generator.
[[nodiscard]] std::uint64_t random_seed();
/// Seeds all generators.
void seed_random(std::uint64_t seed, Device device);

/// Collective: makes the ranks draw different random numbers, for instance for dropout. Rank 0 draws the numbers of a
/// run with one rank. Does nothing if the states already differ, because the program has seeded them.
void let_random_numbers_differ(Communicator& comm);

}  // namespace mn
