/// Networks of jobs that train with the code of mn-compile (--compile; docs/compiled.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include <mn/app/common_options.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>

namespace mn::app {

/// What mn-compile makes a network of: its --network and --sizes (python/mn_compile/networks.py).
struct NetworkSizes {
  std::string type;
  nlohmann::json sizes;
};

/// Computes what the network's forward() computes in training mode, or returns an undefined tensor if the code does not
/// take this number of samples.
using CompiledForward = std::function<torch::Tensor(const torch::Tensor& inputs)>;

/// Declares --compile. `compile`: a package of mn-compile; "auto": made by rank 0; empty: the network is not compiled.
void declare_compile(Options& options, std::string& compile);

/// Collective. The code works on the parameters and buffers of `model`. It comes from the package that `compile` names.
/// If that is "auto", rank 0 calls mn-compile, unless an earlier job did so for an equal network; the package lies in
/// the folder mn of XDG_CACHE_HOME, or of ~/.cache. Throws the same DataError or UsageError on every rank.
[[nodiscard]] CompiledForward compile_network(const std::string& compile, const CommonOptions& given,
                                              const NetworkSizes& network, const torch::nn::Module& model,
                                              const std::shared_ptr<Communicator>& comm);

}  // namespace mn::app
