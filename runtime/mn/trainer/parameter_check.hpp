/// Notices parameters that differ between the ranks.
///
/// Ranks begin with the same parameters and apply the same mean gradients, so they stay equal without a message. What
/// breaks that (a hook or an extension that depends on the rank, faulty memory, processors that round differently)
/// trains a mixture of models, and nothing else would say so.
/// Cost of a comparison: a pass over the parameters, which come to the host, and one allreduce of 8 bytes.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

class ParameterCheck {
 public:
  /// Compares after the first update and after each `every` more; 0: never.
  explicit ParameterCheck(std::int64_t every) noexcept : every_(every) {}

  /// Collective, after each update; in debug mode it always compares. Throws the same DataError on every rank, which
  /// names ranks, hosts and the first parameter that differs.
  void after_update(const std::vector<at::Tensor>& parameters, Communicator& comm);

 private:
  std::int64_t every_;
  std::int64_t updates_ = 0;
};

}  // namespace mn
