/// Checks, outside debug mode, whether the ranks of a group make equal collective calls. With unequal counts, ranks
/// would read beyond their memory or compute wrong results. If a reduction uses small messages or shared memory, they
/// carry the call's shape (CallShape) beside the data, so no extra message is needed.
///
/// Invariants:
/// 1. If a rank's call differs from the call of the rank before it, the rank sends no data, because Open MPI may write
///    a longer message beyond the receiver's buffer. If several neighboring ranks make the same wrong call, only the
///    first of them notices. The others get an error later (MessageSteps, mpi_check()) if MPI notices the wrong length
///    of a message.
/// 2. If one rank makes a different call, that rank and the next rank throw. If the call has a time-out or the ranks
///    share memory, every rank throws. Otherwise the remaining ranks may wait until the job ends.
///
/// Cost: NeighborCheck sends one message of 48 bytes to the next rank, whatever the number of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpi.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {

struct CallShape {
  std::uint64_t count = 0;
  float scale = 1;
  std::uint16_t call = 0;  ///< number of the call modulo 65536, counted by its reducer
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;

  CallShape() = default;
  CallShape(std::uint64_t n, const Reduction& reduction, std::uint16_t call_ = 0)
      : count(n), scale(static_cast<float>(reduction.scale)), call(call_), dtype(reduction.dtype), op(reduction.op) {}
  /// True if the shapes are equal bit by bit. Not operator ==, because a scale may be NaN.
  [[nodiscard]] bool is(const CallShape& other) const noexcept;
};
static_assert(sizeof(CallShape) == 16);

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

/// Throws CallMismatch if `theirs`, the call of rank `other` of `comm`, differs from `own`, the calling rank's call.
void require_same(MPI_Comm comm, int other, const CallSignature& theirs, const CallSignature& own);

/// Collective: compares the calling rank's call with the call of the rank before it. The constructor begins to send the
/// call to the next rank.
class NeighborCheck {
 public:
  NeighborCheck(MPI_Comm comm, const CallSignature& own);
  /// Waits for the call of the rank before. Throws CallMismatch if the calls differ. Call it once, before data is sent.
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
