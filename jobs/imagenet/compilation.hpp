/// Compiles the network of jobs/imagenet with mn-compile (--compile).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include <mn/app/compile.hpp>
#include <mn/comm/communicator.hpp>

#include "imagenet/options.hpp"

namespace mn::jobs {

/// The networks that mn-compile knows, for --arch.
[[nodiscard]] std::vector<std::string> compiled_archs();

/// Collective. Empty without --compile. Throws as app::compile_network() does.
[[nodiscard]] app::CompiledForward compile_classifier(const torch::nn::Module& model, const ImagenetOptions& given,
                                                      std::int64_t num_classes,
                                                      const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
