#include <cstring>
#include <string>

#include <mn/comm/call_match.hpp>
#include <mn/comm/call_mismatch.hpp>
#include <mn/comm/mpi.hpp>

namespace mn {
namespace {

/// A rank of `comm` as the job numbers it.
int rank_in_job(MPI_Comm comm, int rank) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  int found = rank;
  mpi_check(MPI_Comm_group(comm, &group), "MPI_Comm_group");
  mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  mpi_check(MPI_Group_translate_ranks(group, 1, &rank, world, &found), "MPI_Group_translate_ranks");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return found == MPI_UNDEFINED ? rank : found;
}

std::string described(const CallSignature& call, bool with_scale) {
  const CallShape& shape = call.shape;
  std::string text = std::string(call.operation) + " of " + std::to_string(shape.count) + " " +
                     std::string(name_of(shape.dtype)) + ", " + std::string(name_of(shape.op));
  if (with_scale) text += ", scale " + std::to_string(shape.scale);
  return call.root < 0 ? text : text + ", root " + std::to_string(call.root);
}

}  // namespace

bool CallShape::is(const CallShape& other) const noexcept { return std::memcmp(this, &other, sizeof other) == 0; }

bool CallSignature::is(const CallSignature& other) const noexcept {
  return std::memcmp(this, &other, sizeof other) == 0;
}

void require_same(MPI_Comm comm, int other, const CallSignature& theirs, const CallSignature& own) {
  if (theirs.is(own)) return;
  int rank = 0;
  mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  const bool scales = theirs.shape.scale != own.shape.scale;
  throw CallMismatch("rank " + std::to_string(rank_in_job(comm, other)) + " gives " + described(theirs, scales) +
                     "; rank " + std::to_string(rank_in_job(comm, rank)) + " gives " + described(own, scales) +
                     ": all ranks must make the same calls with the same count, dtype, op and root; MN_DEBUG=1 "
                     "compares more");
}

NeighborCheck::NeighborCheck(MPI_Comm comm, const CallSignature& own) : comm_(comm), messages_(Messages{own, {}}) {
  int rank = 0;
  int size = 1;
  mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  mpi_check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
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
