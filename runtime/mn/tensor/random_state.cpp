#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include <mn/tensor/tensor.hpp>
#include <mn/tensor/random_state.hpp>

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

}  // namespace mn
