#include "step_timing.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <span>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn::gpu_steps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 10;  // cuDNN chooses, overlap tunes its buckets
constexpr int kAlone = 5;    // steps of which each is waited for

struct Waits {
  long long calls = 0;
  double seconds = 0;
};

Waits waits_so_far() {
  using Ask = long long (*)(double*);
  static const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "mn_host_waits"));
  Waits waits;
  if (ask != nullptr) waits.calls = ask(&waits.seconds);
  return waits;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void finish(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

struct Alone {
  double step_s = 0;
  double host_s = 0;
};

Alone time_alone(c10::Device device, const std::function<void()>& step) {
  Alone times;
  for (int i = 0; i < kAlone; ++i) {
    const auto begin = Clock::now();
    step();
    times.host_s += seconds_since(begin) / kAlone;
    finish(device);
    times.step_s += seconds_since(begin) / kAlone;
  }
  return times;
}

/// The numbers of "64,256".
std::vector<std::int64_t> parse_batches(const std::string& text) {
  std::vector<std::int64_t> batches;
  for (std::size_t begin = 0; begin <= text.size(); begin = text.find(',', begin) + 1) {
    const std::int64_t batch = std::atoll(text.c_str() + begin);
    if (batch < 1) throw UsageError("--batches: \"" + text + "\" is not a list of numbers, as 64,256");
    batches.push_back(batch);
    if (text.find(',', begin) == std::string::npos) break;
  }
  return batches;
}

}  // namespace

void declare_options(Options& options, TimingOptions& given) {
  options.add("batches", given.batches, "N,…", "samples of a minibatch on each rank, one after the other");
  options.add("seconds", given.seconds, "to measure each for", 0, 3600);
}

void print_lines(const TimingOptions& given, const Communicator& comm,
                 const std::function<nlohmann::json(std::int64_t batch)>& measure) {
  for (const std::int64_t batch : parse_batches(given.batches)) {
    const nlohmann::json line = measure(batch);
    if (comm.rank() == 0) std::cout << line.dump() << std::endl;
  }
}

nlohmann::json time_steps(Communicator& comm, double seconds, const std::string& rate, std::int64_t count,
                          const std::function<void()>& step) {
  const c10::Device device = comm.device();
  for (int i = 0; i < kWarmUp; ++i) step();
  finish(device);
  Alone alone = time_alone(device, step);
  comm.allreduce(std::span(&alone.step_s, 1), ReduceOp::kMax);
  const auto steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / alone.step_s), 2, 10000);
  comm.barrier();
  const Waits before = waits_so_far();
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < steps; ++i) step();
  const Waits after = waits_so_far();
  finish(device);
  const auto made = static_cast<double>(steps);
  double step_s = seconds_since(begin) / made;
  comm.allreduce(std::span(&step_s, 1), ReduceOp::kMax);
  return {{"ranks", comm.size()},
          {rate, static_cast<double>(count * comm.size()) / step_s},
          {"step_ms", step_s * 1e3},
          {"host_ms", alone.host_s * 1e3},
          {"waits", static_cast<double>(after.calls - before.calls) / made},
          {"waited_ms", (after.seconds - before.seconds) / made * 1e3}};
}

}  // namespace mn::gpu_steps
