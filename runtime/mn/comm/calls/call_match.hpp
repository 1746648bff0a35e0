/// Whether the ranks of a group give the same to a collective call, without debug mode: one that gives another count
/// would otherwise have others read beyond their memory, or all compute nonsense.
///
/// CallCheck asks before calls of MPI's collectives and exchanges of parts. The reducers ask where ranks meet anyway:
/// what they compare travels with small messages and lies in shared memory beside the data.
///
/// Invariants:
/// 1. A rank that differs from the one before it sends nothing to any other: Open MPI may write a longer message than
///    expected beyond the end of its receiver's buffer. Of several that differ alike the first alone finds out so;
///    messages of another length are errors then (MessageSteps, mpi_check()), if MPI comes so far.
/// 2. Where one rank differs, it and the one behind it throw. With a time-out or shared memory every rank does: else
///    the others may wait until the job ends.
///
/// Cost: NeighborCheck is a message of 48 bytes to the next rank, whatever the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpi.h>

#include <mn/comm/calls/call_limits.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {

/// What ranks must give alike to a reduction.
struct CallShape {
  std::uint64_t count = 0;
  float scale = 1;
  std::uint16_t call = 0;  ///< which of its reducer's
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;

  CallShape() = default;
  CallShape(std::uint64_t count_, const Reduction& reduction, std::uint16_t call_ = 0)
      : count(count_),
        scale(static_cast<float>(reduction.scale)),
        call(call_),
        dtype(reduction.dtype),
        op(reduction.op) {}
  /// By bits: a scale may be NaN.
  [[nodiscard]] bool is(const CallShape& other) const noexcept;
};
static_assert(sizeof(CallShape) == 16);

/// A call that is compared.
struct CallSignature {
  CallShape shape;
  std::int32_t root = -1;  ///< -1: none
  char operation[28] = {};

  CallSignature() = default;
  CallSignature(std::string_view name, const CallShape& shape_, int root_ = -1) : shape(shape_), root(root_) {
    name.copy(operation, sizeof operation - 1);
  }
  [[nodiscard]] bool is(const CallSignature& other) const noexcept;
};

/// Throws CallMismatch unless rank `other` of `comm` gives what this one gives.
void require_same(MPI_Comm comm, int other, const CallSignature& theirs, const CallSignature& own);

/// Collective: compares this rank's call with that of the rank before it. The messages travel from construction on.
class NeighborCheck {
 public:
  NeighborCheck(MPI_Comm comm, const CallSignature& own);
  /// Once, before anything else is sent. Throws CallMismatch.
  void finish();

 private:
  struct Messages {
    CallSignature own;
    CallSignature theirs;
  };
  MPI_Comm comm_;
  int before_ = 0;
  KeptForMpi<Messages> messages_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace mn
