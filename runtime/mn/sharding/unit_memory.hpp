/// Memory for the elements of units.
///
/// If all ranks run on the CPUs of one node, the memory is shared: the ranks read one another's elements where they lie
/// (comm/node/node_parts.hpp), and the memory is used again in each step, which saves page faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

class Communicator;

/// Collective: returns a tensor of `count` zeros.
[[nodiscard]] at::Tensor unit_memory(Communicator& comm, std::int64_t count, const at::TensorOptions& options);

/// Buffers that a rank uses again and again. All buffers lie in one block of memory, so a collective call finds shared
/// memory even if the ranks use different buffers.
class UnitBuffers {
 public:
  /// Local: no buffers.
  UnitBuffers() = default;
  /// Collective: makes a buffer of each of the sizes, in bytes. Makes none if the ranks need no shared memory.
  UnitBuffers(Communicator& comm, const std::vector<std::size_t>& sizes);
  /// Local: returns a tensor in the smallest buffer with enough room that no tensor uses. If there is none, returns a
  /// tensor in new memory. The elements have any values.
  [[nodiscard]] at::Tensor take(std::int64_t count, const at::TensorOptions& options) const;

 private:
  struct Block;
  std::shared_ptr<Block> block_;  // null without buffers
};

}  // namespace mn
