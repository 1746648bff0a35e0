#include <mn/app/memory_shortage.hpp>

#include <exception>
#include <new>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/memory_account.hpp>

namespace mn::app {
namespace {

/// True if the error, or the cause of the error, means that memory is short.
bool is_shortage(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (const auto* const of_torch = dynamic_cast<const c10::Error*>(&error)) {
    return of_torch->msg().find("can't allocate memory") != std::string::npos;  // libtorch's allocator of the CPU
  }
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& cause) {
    return is_shortage(cause);
  }
  return false;
}

std::string text_of(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  return first_line_of(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
}

/// The bytes of the model and of the optimizer's state, which may not exist yet.
ModelBytes expected_bytes(const CommonOptions& common, const torch::nn::Module& model) {
  const bool has_moments = common.optimizer != "sgd" && common.optimizer != "lars";
  std::uint64_t state_bytes = sizeof(float) * (has_moments ? 2 : common.momentum > 0 ? 1 : 0);
  if (common.precision == kNarrowWeights) state_bytes += sizeof(float);  // masters
  name_tensors(model);
  const std::vector<at::Tensor> parameters = parameters_of(model);
  ModelBytes bytes = {.largest_unit = largest_unit_bytes(parameters, ShardOptions()),
                      .gathered_unit = largest_unit_bytes(parameters, ShardOptions(), autocast_type(common.precision))};
  for (const at::Tensor& parameter : parameters) {
    bytes.parameters += parameter.nbytes();
    if (!parameter.requires_grad()) continue;
    bytes.gradients += parameter.nbytes();
    bytes.optimizer += static_cast<std::uint64_t>(parameter.numel()) * state_bytes;
  }
  return bytes;
}

int ranks_of_group(const CommonOptions& common, const Communicator& comm) {
  const int ranks = parse_shard_group(common.shard_group);
  if (ranks == ShardOptions::kNode) return comm.intra_size();
  return ranks == ShardOptions::kAllRanks ? comm.size() : ranks;
}

std::string advice(const CommonOptions& common, const Communicator& comm, const torch::nn::Module* model) {
  const Shard what = parse_shard(common.shard);
  if (model != nullptr) {
    const ModelBytes bytes = expected_bytes(common, *model);
    return "; beside activations, " + memory_advice(memory_account(bytes, what, ranks_of_group(common, comm)), what);
  }
  return what == Shard::kParameters ? "" : "; if the model is too large, use --shard parameters";
}

}  // namespace

int explain_shortage(const CommonOptions& common, const Communicator& comm,
                     const std::function<const torch::nn::Module*()>& model, const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (!is_shortage(error)) throw;
    throw UsageError("out of memory: " + text_of(error) + advice(common, comm, model()));
  }
}

}  // namespace mn::app
