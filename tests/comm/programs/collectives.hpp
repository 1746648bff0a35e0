/// Collective calls of a random program.
#pragma once

#include <vector>

#include <mn/comm/communicator.hpp>

#include "tests/comm/programs/memory.hpp"
#include "tests/comm/programs/program.hpp"

namespace mn::testing {

/// Makes the call on its own buffers, and compares the result with the model.
class CollectiveCall {
 public:
  /// `memories` keeps the buffers.
  CollectiveCall(const Action& action, Communicator& comm, Memories& memories);
  void run();

 private:
  [[nodiscard]] bool is_root() const { return comm_.rank() == action_.peer; }
  [[nodiscard]] Memory& keep(const Values& values) { return memories_.keep(action_, values); }
  [[nodiscard]] Memory& empty(std::size_t count) { return memories_.keep(action_, Values(count, kEmpty)); }

  void bcast();
  void gather();
  void alltoall();
  void scatter();
  void allreduce();
  void allreduce_allocated();
  void reduce_scatter();
  void reduce();
  /// Elements of each rank's part, some 0. `of`: the sending rank, if parts differ by sender.
  [[nodiscard]] std::vector<std::size_t> lengths(std::size_t of = 0) const;
  void gather_uneven();
  void scatter_uneven();
  void alltoall_uneven();
  void gradients();
  void objects();

  Action action_;
  Communicator& comm_;
  Memories& memories_;
  std::size_t ranks_;
  std::size_t self_;
  std::size_t part_;  // elements of each rank's part
};

}  // namespace mn::testing
