/// Finds parameters that differ between the ranks.
///
/// Ranks begin with equal parameters and apply equal mean gradients; therefore parameters stay equal without a message.
/// A hook or an extension that depends on the rank, faulty memory or processors that round differently break this
/// silently, and training goes on with a mixture of models. This class therefore compares the parameters from time to
/// time. Cost of a comparison: a pass over the parameters, copied to the host, and one allreduce of 8 bytes.
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

/// Collective: returns the first parameter that differs between ranks; no value if none does.
[[nodiscard]] std::optional<DifferentParameter> find_difference(const std::vector<at::Tensor>& parameters,
                                                                Communicator& comm);

class ParameterCheck {
 public:
  /// Compares parameters after the first update and after every `every` updates; never if `every` is 0. Compares the
  /// masters of `optimizer` in place of their parameters (master_weights.hpp).
  ParameterCheck(std::int64_t every, torch::optim::Optimizer& optimizer) noexcept
      : every_(every), optimizer_(optimizer) {}

  /// Collective, called after each update: compares if it is time, and in debug mode always. If parameters differ, all
  /// ranks throw a DataError that names the ranks, their hosts and the first parameter.
  void after_update(const std::vector<at::Tensor>& parameters, Communicator& comm);

 private:
  std::int64_t every_;
  torch::optim::Optimizer& optimizer_;
  std::int64_t updates_ = 0;
};

}  // namespace mn
