/// Checks, outside debug mode, whether the ranks of a group make equal collective calls. With unequal counts, ranks
/// would read beyond their memory or compute nonsense. A reducer compares the call's shape (CallShape) without a
/// message of its own: small messages carry the shape, or it lies in shared memory beside the data.
///
/// Invariants:
/// 1. A rank that differs from the rank before it sends nothing to any rank: Open MPI may write a message that is
///    longer than expected beyond the receiver's buffer. If several neighboring ranks make the same wrong call, only
///    the first of them notices. To the others, a later message of wrong length is an error (MessageSteps, mpi_check())
///    if MPI notices the length.
/// 2. If one rank makes a different call, that rank and the next rank throw. With a time-out or shared memory every
///    rank throws; without them, other ranks may wait until the job ends.
///
/// Cost: NeighborCheck sends one message of 48 bytes to the next rank, whatever the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpi.h>

#include <mn/comm/calls/call_limits.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {

/// The arguments of a reduction that must be equal on all ranks.
struct CallShape {
  std::uint64_t count = 0;
  float scale = 1;
  std::uint16_t call = 0;  ///< number of the call, counted by its reducer, modulo 65536
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;

  CallShape() = default;
  CallShape(std::uint64_t count_, const Reduction& reduction, std::uint16_t call_ = 0)
      : count(count_),
        scale(static_cast<float>(reduction.scale)),
        call(call_),
        dtype(reduction.dtype),
        op(reduction.op) {}
  /// Whether the two are equal bit by bit, because a scale may be NaN.
  [[nodiscard]] bool is(const CallShape& other) const noexcept;
};
static_assert(sizeof(CallShape) == 16);

/// A collective call, as ranks compare it.
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

/// Throws CallMismatch unless rank `other` of `comm` makes the calling rank's call.
void require_same(MPI_Comm comm, int other, const CallSignature& theirs, const CallSignature& own);

/// Collective: compares the calling rank's call with the call of the rank before it. The constructor sends the
/// messages.
class NeighborCheck {
 public:
  NeighborCheck(MPI_Comm comm, const CallSignature& own);
  /// Waits for the call of the rank before. Call it once, before sending anything else. Throws CallMismatch if the
  /// calls differ.
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
