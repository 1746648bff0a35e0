/// How long training steps take, for the programs whose lines `prove` reads. With host_waits.so preloaded it also
/// counts the calls of a step that wait for the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>

namespace mn::gpu_steps {

/// The numbers of "64,256". Throws UsageError.
[[nodiscard]] std::vector<std::int64_t> parse_batches(const std::string& text);

/// Collective: makes steps for `seconds`, after some that are not timed. One line as resnet50.py and gpt.py print it,
/// the same on all ranks but for the waits; rates are of all ranks: `rate` ("images_per_second") says what they count,
/// of which each rank's step has `count`.
[[nodiscard]] nlohmann::json time_steps(Communicator& comm, double seconds, const std::string& rate, std::int64_t count,
                                        const std::function<void()>& step);

}  // namespace mn::gpu_steps
