#include <mn/comm/calls/call_match.hpp>

#include <cstring>
#include <string>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

/// Converts a rank of `comm` to its rank in MPI_COMM_WORLD, if the rank has one there.
int rank_in_job(MPI_Comm comm, int rank) {
  const int found = ranks_in(MPI_COMM_WORLD, comm)[static_cast<std::size_t>(rank)];
  return found < 0 ? rank : found;
}

/// Describes `call`. Names the op and the scale only if they differ from those of `other`, and a count of 0 only if the
/// operations are equal but count or dtype differ.
std::string described(const CallSignature& call, const CallSignature& other) {
  const CallShape& own = call.shape;
  const CallShape& theirs = other.shape;
  std::string text = call.operation;
  const bool differs = own.count != theirs.count || own.dtype != theirs.dtype;
  if (own.count > 0 || (differs && text == other.operation))
    text += " of " + std::to_string(own.count) + " " + std::string(name_of(own.dtype));
  if (own.op != theirs.op) text += ", " + std::string(name_of(own.op));
  if (own.scale != theirs.scale) text += ", scale " + std::to_string(own.scale);
  return call.root < 0 ? text : text + ", root " + std::to_string(call.root);
}

}  // namespace

bool CallShape::is(const CallShape& other) const noexcept { return std::memcmp(this, &other, sizeof other) == 0; }

bool CallSignature::is(const CallSignature& other) const noexcept {
  return std::memcmp(this, &other, sizeof other) == 0;
}

void require_same(MPI_Comm comm, int other, const CallSignature& theirs, const CallSignature& own) {
  if (theirs.is(own)) return;
  throw CallMismatch("rank " + std::to_string(rank_in_job(comm, other)) + " gives " + described(theirs, own) +
                     "; rank " + std::to_string(rank_in_job(comm, rank_in(comm))) + " gives " + described(own, theirs) +
                     ": " + kSameCalls + " compares more");
}

NeighborCheck::NeighborCheck(MPI_Comm comm, const CallSignature& own) : comm_(comm), messages_(Messages{own, {}}) {
  const int rank = rank_in(comm);
  const int size = size_of(comm);
  before_ = (rank + size - 1) % size;
  messages_->theirs = own;
  if (size == 1) return;
  constexpr int kBytes = sizeof(CallSignature);
  mpi_check(MPI_Irecv(&messages_->theirs, kBytes, MPI_BYTE, before_, kInternalTag, comm, &requests_[0]),
            "comparing calls");
  mpi_check(MPI_Isend(&messages_->own, kBytes, MPI_BYTE, (rank + 1) % size, kInternalTag, comm, &requests_[1]),
            "comparing calls");
}

void NeighborCheck::finish() {
  mpi_wait(requests_, "comparing calls");
  require_same(comm_, before_, messages_->theirs, messages_->own);
}

}  // namespace mn
