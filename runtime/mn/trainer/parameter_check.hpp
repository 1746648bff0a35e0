/// Finds parameters that differ between the ranks.
///
/// Ranks begin with equal parameters and apply equal mean gradients, so the parameters stay equal without a message.
/// They may still become different: by a hook or an extension that depends on the rank, by faulty memory, or by
/// processors that round differently. No rank would notice, and training would go on with a mixture of models. This
/// class therefore compares the parameters from time to time. Cost of a comparison: a copy of the parameters to the
/// host, a pass over the copy, and one allreduce of 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// A parameter whose values differ between the ranks.
struct DifferentParameter {
  std::size_t index;
  std::string ranks;  ///< "rank 1 (host a), rank 3 (host b)"
};

/// Collective: returns the first parameter whose values differ between ranks. No value if all parameters are equal. The
/// result names ranks by their numbers in `all`.
[[nodiscard]] std::optional<DifferentParameter> find_difference(const std::vector<at::Tensor>& parameters,
                                                                Communicator& comm, const Communicator& all);

class ParameterCheck {
 public:
  /// Compares parameters after the first update and after every `every` updates. If `every` is 0, never compares. If
  /// `optimizer` keeps masters of some parameters (master_weights.hpp), compares the masters in place of these
  /// parameters.
  ParameterCheck(std::int64_t every, torch::optim::Optimizer& optimizer) noexcept
      : every_(every), optimizer_(optimizer) {}

  /// Collective, called after each update. Compares the parameters `all` if a comparison is due, and in debug mode
  /// always. If parameters differ, all ranks throw a DataError that names the ranks, their hosts and the first
  /// parameter that differs. Experts, which differ, are left out. If the parameters are pieces of sharded parameters,
  /// `replicas` are the ranks that hold the same pieces.
  void after_update(const std::vector<at::Tensor>& all, Communicator& comm, Communicator* replicas = nullptr);

 private:
  std::int64_t every_;
  torch::optim::Optimizer& optimizer_;
  std::int64_t updates_ = 0;
};

}  // namespace mn
