#include <mn/comm/messages/part_exchange.hpp>

#include <cassert>
#include <cstring>
#include <limits>

#include <mn/comm/messages/message_steps.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

/// No rank knows all lengths: the number of messages in flight is chosen as for long ones.
constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max();

}  // namespace

void exchange_parts(MPI_Comm comm, std::span<const ConstBufferView> sent, std::span<const BufferView> received,
                    std::size_t count_limit) {
  int rank = 0;
  mpi_check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  const int size = static_cast<int>(sent.size());
  MessageSteps steps(size, kAnyLength, "exchanging parts", [&](int step, MessageSteps::Pair& requests) {
    const int source = (rank + size - step) % size;
    const int dest = (rank + step) % size;
    const BufferView& in = received[static_cast<std::size_t>(source)];
    const ConstBufferView& out = sent[static_cast<std::size_t>(dest)];
    if (in.count > 0) {
      // MPI keeps a freed type until its messages are done.
      const MpiCount n(in.count, in.dtype, count_limit);
      mpi_check(MPI_Irecv(in.data, n.count(), n.type(), source, kInternalTag, comm, &requests[0]), "receiving a part",
                in.bytes());
    }
    if (out.count > 0) {
      const MpiCount n(out.count, out.dtype, count_limit);
      mpi_check(MPI_Isend(out.data, n.count(), n.type(), dest, kInternalTag, comm, &requests[1]), "sending a part",
                out.bytes());
    }
    return in.bytes();
  });
  // While messages travel.
  const auto own = static_cast<std::size_t>(rank);
  assert(sent.size() == received.size() && sent[own].count == received[own].count);  // (1)
  if (sent[own].count > 0) std::memcpy(received[own].data, sent[own].data, sent[own].bytes());
  steps.finish();
}

}  // namespace mn
