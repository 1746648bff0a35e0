#include <mn/comm/messages/message_steps.hpp>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

/// 1 MiB in flight keeps a network of 400 Gbit/s busy. 8 steps hide latency; more than 64 might flood the receiver.
std::size_t steps_in_flight(std::size_t bytes) {
  constexpr std::size_t kBytes = 1024 * 1024;
  return std::clamp<std::size_t>(kBytes / std::max<std::size_t>(bytes, 1), 8, 64);
}

void require_length(const MPI_Status& received, std::size_t expected, std::string_view what) {
  int bytes = 0;
  mpi_check(MPI_Get_count(&received, MPI_BYTE, &bytes), "MPI_Get_count");
  // MPI reports more than INT_MAX bytes as MPI_UNDEFINED.
  if (bytes == MPI_UNDEFINED || static_cast<std::size_t>(bytes) == expected) return;
  throw CallMismatch(std::string(what) + ": rank " + std::to_string(received.MPI_SOURCE) + " of the group sends " +
                     std::to_string(bytes) + " bytes where this rank expects " + std::to_string(expected) + ": " +
                     kSameCalls + " says which rank differs");
}

}  // namespace

MessageSteps::MessageSteps(MPI_Comm comm, std::size_t bytes, std::string_view what, Find find)
    : comm_(comm), rank_(rank_in(comm)), size_(size_of(comm)), what_(what), find_(std::move(find)) {
  in_flight_.resize(steps_in_flight(bytes));
  while (posted_ < std::min(static_cast<int>(in_flight_.size()), size_ - 1)) post_next();
}

void MessageSteps::post_next() {
  ++posted_;
  assert(posted_ < size_);
  const int source = (rank_ + size_ - posted_) % size_;
  const int dest = (rank_ + posted_) % size_;
  const Step step = find_(static_cast<std::size_t>(source), static_cast<std::size_t>(dest));
  auto& [requests, expected] = at(posted_);
  requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  expected = step.in.size();
  if (!step.in.empty()) {
    const MpiCount n(step.in.size(), DType::kUInt8);  // MPI keeps its type until the messages are done
    mpi_check(MPI_Irecv(step.in.data(), n.count(), n.type(), source, kInternalTag, comm_, &requests[0]), what_,
              step.in.size());
  }
  if (!step.out.empty()) {
    const MpiCount n(step.out.size(), DType::kUInt8);
    mpi_check(MPI_Isend(step.out.data(), n.count(), n.type(), dest, kInternalTag, comm_, &requests[1]), what_,
              step.out.size());
  }
}

void MessageSteps::finish() {
  for (int step = 1; step < size_; ++step) {
    auto& [requests, expected] = at(step);
    MPI_Status received = {};
    mpi_wait({&requests[1], 1}, what_);
    mpi_wait(requests[0], &received, what_);
    if (expected > 0) require_length(received, expected, what_);  // invariant 2: MPI would accept a shorter message
    if (posted_ < size_ - 1) post_next();
  }
  size_ = 1;
}

}  // namespace mn
