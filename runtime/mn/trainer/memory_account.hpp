/// Computes how much memory a rank needs in training, for each way of sharding and any number of ranks.
///
/// The account counts parameters, gradients, the optimizer's state and the buffers of sharding. The caller measures
/// activations, because they depend on the network. The account leaves out padding (less than 64 bytes for each
/// parameter), temporary results of operators, libraries and samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mn/sharding/shard_options.hpp>

namespace mn {

/// Bytes of a whole model in training, on all ranks together.
struct ModelBytes {
  std::uint64_t parameters = 0;     ///< trained or not
  std::uint64_t gradients = 0;      ///< of the trained parameters
  std::uint64_t optimizer = 0;      ///< the optimizer's state: 8 for each parameter with Adam
  std::uint64_t largest_unit = 0;   ///< the parameters of the largest unit
  std::uint64_t gathered_unit = 0;  ///< the largest unit as operators use it: under autocast, matrices have 16 bits
};

/// The memory of a rank, in bytes.
struct MemoryAccount {
  std::uint64_t parameters = 0;   ///< the rank's share
  std::uint64_t gradients = 0;    ///< the rank's share
  std::uint64_t optimizer = 0;    ///< the rank's share of the state
  std::uint64_t gathered = 0;     ///< whole units: the present and the next
  std::uint64_t buffers = 0;      ///< gradients of two units: backward fills a buffer, and the ranks reduce the other
  std::uint64_t activations = 0;  ///< tensors that forward keeps for backward; 0: not measured

  /// The sum of all parts.
  [[nodiscard]] std::uint64_t total() const noexcept {
    return parameters + gradients + optimizer + gathered + buffers + activations;
  }
};

/// Returns the account of a rank if `ranks` ranks share `what`.
[[nodiscard]] MemoryAccount memory_account(const ModelBytes& model, Shard what, int ranks);

/// Returns a table of the accounts: a line for each way of sharding on `ranks`, 8, 64 and 512 ranks. An arrow marks the
/// line of `what` on `ranks` ranks. `activations` is added to each line.
[[nodiscard]] std::string memory_table(const ModelBytes& model, Shard what, int ranks, std::uint64_t activations);

/// Returns a line of advice for a training without enough memory: the two largest parts of the account, and an option
/// against the largest part.
[[nodiscard]] std::string memory_advice(const MemoryAccount& account, Shard what);

}  // namespace mn
