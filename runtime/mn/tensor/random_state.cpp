#include <mn/tensor/random_state.hpp>

#include <string>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/checksum.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

struct NamedGenerator {
  const char* name;
  at::Generator generator;
};

std::vector<NamedGenerator> generators(Device device) {
  std::vector<NamedGenerator> all = {{"random.cpu", at::globalContext().defaultGenerator(at::Device(at::kCPU))}};
  if (device.type == DeviceType::kCuda) {
    all.push_back({"random.cuda", at::globalContext().defaultGenerator(at::Device(device))});
  }
  return all;
}

}  // namespace

NamedTensors random_state(Device device) {
  NamedTensors state;
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    state.emplace_back(name, generator.get_state());
  }
  return state;
}

void set_random_state(const NamedTensors& state, Device device) {
  for (auto& [name, generator] : generators(device)) {
    for (const auto& [known, tensor] : state) {
      if (known != name) continue;
      const std::lock_guard lock(generator.mutex());
      generator.set_state(tensor);
    }
  }
}

std::uint64_t random_state_hash(Device device) {
  std::uint64_t hash = 0;
  for (const auto& [name, state] : random_state(device)) {
    const at::Tensor bytes = state.contiguous();
    hash = hash64({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()}, hash64(name, hash));
  }
  return hash;
}

std::uint64_t random_seed() {
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU));
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

void seed_random(std::uint64_t seed, Device device) {
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

void let_random_numbers_differ(Communicator& comm) {
  if (comm.size() == 1) return;
  const std::uint64_t state = random_state_hash(comm.device());
  if (!same_on_all_ranks(state, comm) || comm.rank() == 0) return;
  seed_random(hash64("rank " + std::to_string(comm.rank()), state), comm.device());
}

}  // namespace mn
