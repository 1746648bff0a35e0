/// How long training steps take, for the programs whose lines `prove` reads. With host_waits.so preloaded it also
/// counts the calls of a step that wait for the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>
#include <mn/core/options.hpp>

namespace mn::gpu_steps {

struct TimingOptions {
  std::string batches;  ///< "64,256": samples of a minibatch on each rank, one after the other
  double seconds = 4;   ///< to measure each for
};

void declare_options(Options& options, TimingOptions& given);

/// Collective: rank 0 prints measure(batch), a line for each of the batches. Throws UsageError if they are not numbers.
void print_lines(const TimingOptions& given, const Communicator& comm,
                 const std::function<nlohmann::json(std::int64_t batch)>& measure);

/// Collective: makes steps for `seconds`, after some that are not timed. One line as resnet50.py and gpt.py print it,
/// the same on all ranks but for the waits; rates are of all ranks: `rate` ("images_per_second") says what they count,
/// of which each rank's step has `count`.
[[nodiscard]] nlohmann::json time_steps(Communicator& comm, double seconds, const std::string& rate, std::int64_t count,
                                        const std::function<void()>& step);

}  // namespace mn::gpu_steps
