// The communicator's calls with parts of different lengths: gatherv, scatterv, allgatherv, alltoallv.
//
// Each of these calls exchanges parts between ranks; some may be empty. If the buffers lie on the device, the device's
// collectives exchange the parts. Otherwise messages carry them, with host copies of device buffers. Sender and
// receiver know each part's length. Between two ranks there is at most one message in each direction, so all messages
// can have equal tags.
//
// Cost: one message for each part that goes to a different rank, and one copy of the part that a rank sends to itself.
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/call_host_copies.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/messages/message_steps.hpp>
#include <mn/comm/on_device.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

using Counts = std::span<const std::size_t>;

void check_counts(std::string_view operation, std::string_view role, const ConstBufferView& whole, Counts counts) {
  for (const std::size_t count : counts) {  // the sum of the counts may wrap around
    if (count <= whole.count) continue;
    reject(operation, "a part has " + std::to_string(count) + " elements, more than " + std::string(role) +
                          " has: " + std::to_string(whole.count));
  }
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (whole.count == total) return;
  reject(operation, std::string(role) + " has " + std::to_string(whole.count) + " elements, its counts add up to " +
                        std::to_string(total));
}

void check_number_of_counts(std::string_view operation, Counts counts, int ranks) {
  if (counts.size() == static_cast<std::size_t>(ranks)) return;
  reject(operation, std::to_string(counts.size()) + " counts for " + std::to_string(ranks) + " ranks");
}

void check_own_part(std::string_view operation, std::string_view role, const ConstBufferView& part, std::size_t count) {
  if (part.count == count) return;
  reject(operation, std::string(role) + " has " + std::to_string(part.count) + " elements, this rank's count is " +
                        std::to_string(count));
}

/// A rank's part for itself is copied without MPI, so MPI cannot compare its two counts.
void check_own_counts(std::string_view operation, std::size_t sent, std::size_t received) {
  if (sent == received) return;
  reject(operation, "this rank's send count for itself is " + std::to_string(sent) + ", its receive count " +
                        std::to_string(received));
}

void check_apart(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv) {
  const auto* a = static_cast<const std::byte*>(send.data);
  const auto* b = static_cast<const std::byte*>(recv.data);
  if (send.count > 0 && recv.count > 0 && a < b + recv.bytes() && b < a + send.bytes()) {
    reject(operation, "send and recv overlap");
  }
}

/// Throws an equal ArgumentError on every rank unless each receive count equals the matching send count.
void compare_counts(MPI_Comm comm, Counts send_counts, Counts recv_counts) {
  const std::size_t ranks = send_counts.size();
  const std::size_t row = 2 * ranks;
  const KeptForMpi own(std::vector<std::uint64_t>(send_counts.begin(), send_counts.end()));
  own->insert(own->end(), recv_counts.begin(), recv_counts.end());
  const KeptForMpi all(std::vector<std::uint64_t>(row * ranks));
  call_mpi(MPI_Allgather, MPI_Iallgather, "comparing counts", 0, own->data(), static_cast<int>(row), MPI_UINT64_T,
           all->data(), static_cast<int>(row), MPI_UINT64_T, comm);
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      // A row of `all` has the counts that a rank sends, then the counts that it expects.
      const std::uint64_t sent = (*all)[from * row + to];
      const std::uint64_t expected = (*all)[to * row + ranks + from];
      if (sent == expected) continue;
      throw ArgumentError("debug mode: alltoallv: rank " + std::to_string(from) + " sends " + std::to_string(sent) +
                              " elements to rank " + std::to_string(to) + ", which expects " + std::to_string(expected),
                          true);
    }
  }
}

/// A buffer without memory, for match() to compare its count and dtype between ranks.
ConstBufferView total_of(Counts counts, const ConstBufferView& part) {
  return {nullptr, std::accumulate(counts.begin(), counts.end(), std::size_t{0}), part.dtype};
}

/// Collective: throws CallMismatch unless each receive count equals the sender's count. Otherwise Open MPI might write
/// a longer message beyond the end of the buffer.
void exchange_counts(const PlacedRank& own, MPI_Comm comm, Counts send_counts, Counts recv_counts) {
  const KeptForMpi sent(std::vector<std::uint64_t>(send_counts.begin(), send_counts.end()));
  const KeptForMpi coming(std::vector<std::uint64_t>(send_counts.size()));
  call_mpi(MPI_Alltoall, MPI_Ialltoall, "comparing counts", 0, sent->data(), 1, MPI_UINT64_T, coming->data(), 1,
           MPI_UINT64_T, comm);
  for (std::size_t from = 0; from < recv_counts.size(); ++from) {
    if ((*coming)[from] == recv_counts[from]) continue;
    throw CallMismatch("alltoallv: rank " + std::to_string(from) + " sends " + std::to_string((*coming)[from]) +
                       " elements to rank " + std::to_string(own.rank()) + ", which expects " +
                       std::to_string(recv_counts[from]));
  }
}

std::string listed(const ConstBufferView& buffer, Counts counts) {
  std::string text = " of " + std::string(name_of(buffer.dtype)) + ", counts";
  for (const std::size_t count : counts) text += ' ' + std::to_string(count);
  return text;
}

/// Checks gatherv and scatterv. Only the root has the buffer for all parts ("whole").
void check_rooted(std::string_view operation, const Communicator& comm, const ConstBufferView& send,
                  const ConstBufferView& recv, Counts counts, int root) {
  const bool gathers = operation == "gatherv";
  const std::string_view part_role = gathers ? "send" : "recv";
  const std::string_view whole_role = gathers ? "recv" : "send";
  const ConstBufferView& part = gathers ? send : recv;
  const ConstBufferView& whole = gathers ? recv : send;
  check_rank(operation, "root", root, comm.size());
  check_buffer(operation, part_role, part, comm.device());
  check_number_of_counts(operation, counts, comm.size());
  check_own_part(operation, part_role, part, counts[static_cast<std::size_t>(comm.rank())]);
  if (comm.rank() != root) return;
  check_buffer(operation, whole_role, whole, comm.device());
  check_same_dtype(operation, send, recv);
  check_counts(operation, whole_role, whole, counts);
  check_apart(operation, send, recv);
  check_same_memory(operation, send, recv);
}

template <class View>
std::vector<View> parts_of(const View& whole, Counts counts) {
  std::vector<View> parts;
  std::size_t first = 0;
  for (const std::size_t count : counts) {
    parts.push_back(whole.slice(first, count));
    first += count;
  }
  return parts;
}

/// Returns `ranks` parts, all empty except the part of rank `rank`.
template <class View>
std::vector<View> only_part(std::size_t ranks, int rank, const View& part) {
  std::vector<View> parts(ranks);
  parts[static_cast<std::size_t>(rank)] = part;
  return parts;
}

struct Parts {
  std::vector<ConstBufferView> sent;
  std::vector<BufferView> received;
};

void exchange_by_messages(MPI_Comm comm, int rank, const Parts& parts) {
  // All ranks must keep the same number of messages in flight, but no rank knows the lengths of all messages.
  constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max();
  const auto step = [&](std::size_t source, std::size_t dest) -> MessageSteps::Step {
    const BufferView& in = parts.received[source];
    const ConstBufferView& out = parts.sent[dest];
    return {{static_cast<std::byte*>(in.data), in.bytes()}, {static_cast<const std::byte*>(out.data), out.bytes()}};
  };
  MessageSteps steps(comm, kAnyLength, "exchanging parts", step);
  const ConstBufferView& own = parts.sent[static_cast<std::size_t>(rank)];
  const BufferView& place = parts.received[static_cast<std::size_t>(rank)];
  assert(own.count == place.count);
  if (own.count > 0) std::memcpy(place.data, own.data, own.bytes());
  steps.finish();
}

}  // namespace

template <class Cut, class Match>
void Communicator::exchange_parts(std::initializer_list<ConstBufferView> on_all_ranks, ConstBufferView send,
                                  BufferView recv, const Cut& cut, const Match& match) {
  const auto enqueue = [&](DeviceCollectives& device) {
    const Parts parts = cut(send, recv);
    device.exchange(parts.sent, parts.received);
  };
  if (on_device(on_all_ranks, enqueue)) return;
  match();
  on_host(host_copies_->after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    calls_->give_up_on_mismatch([&] { exchange_by_messages(internal_comm(), rank(), cut(in, out)); });
  });
}

void Communicator::gatherv(ConstBufferView send, BufferView recv, Counts counts, int root) {
  const auto checks = [&] { check_rooted("gatherv", *this, send, recv, counts, root); };
  const auto call = calls_->collective("gatherv", send, checks, [&] { return listed(send, counts) + from_root(root); });
  if (rank() != root) recv = {};
  const auto cut = [&](ConstBufferView in, BufferView out) -> Parts {
    return {only_part(counts.size(), root, in),
            rank() == root ? parts_of(out, counts) : std::vector<BufferView>(counts.size())};
  };
  exchange_parts({send}, send, recv, cut, [&] { calls_->match("gatherv", total_of(counts, send), root); });
}

void Communicator::scatterv(ConstBufferView send, Counts counts, BufferView recv, int root) {
  const auto checks = [&] { check_rooted("scatterv", *this, send, recv, counts, root); };
  const auto call =
      calls_->collective("scatterv", recv, checks, [&] { return listed(recv, counts) + from_root(root); });
  if (rank() != root) send = {};
  const auto cut = [&](ConstBufferView in, BufferView out) -> Parts {
    return {rank() == root ? parts_of(in, counts) : std::vector<ConstBufferView>(counts.size()),
            only_part(counts.size(), root, out)};
  };
  exchange_parts({recv}, send, recv, cut, [&] { calls_->match("scatterv", total_of(counts, recv), root); });
}

void Communicator::allgatherv(ConstBufferView send, BufferView recv, Counts counts) {
  const auto checks = [&] {
    check_buffers("allgatherv", send, recv, device_);
    check_number_of_counts("allgatherv", counts, size());
    check_own_part("allgatherv", "send", send, counts[static_cast<std::size_t>(rank())]);
    check_counts("allgatherv", "recv", recv, counts);
    check_apart("allgatherv", send, recv);
  };
  const auto call = calls_->collective("allgatherv", send, checks, [&] { return listed(send, counts); });
  const auto cut = [&](ConstBufferView in, BufferView out) -> Parts {
    return {std::vector<ConstBufferView>(counts.size(), in), parts_of(out, counts)};
  };
  exchange_parts({send, recv}, send, recv, cut, [&] { calls_->match("allgatherv", total_of(counts, send)); });
}

void Communicator::alltoallv(ConstBufferView send, Counts send_counts, BufferView recv, Counts recv_counts) {
  const auto checks = [&] {
    check_buffers("alltoallv", send, recv, device_);
    check_number_of_counts("alltoallv", send_counts, size());
    check_number_of_counts("alltoallv", recv_counts, size());
    const auto own = static_cast<std::size_t>(rank());
    check_own_counts("alltoallv", send_counts[own], recv_counts[own]);
    check_counts("alltoallv", "send", send, send_counts);
    check_counts("alltoallv", "recv", recv, recv_counts);
    check_apart("alltoallv", send, recv);
  };
  const auto call =
      calls_->collective("alltoallv", send, checks, [&] { return " of " + std::string(name_of(send.dtype)); });
  if (debug()) compare_counts(internal_comm(), send_counts, recv_counts);
  const auto cut = [&](ConstBufferView in, BufferView out) -> Parts {
    return {parts_of(in, send_counts), parts_of(out, recv_counts)};
  };
  exchange_parts({send, recv}, send, recv, cut, [&] {
    calls_->match("alltoallv", {nullptr, 0, send.dtype});
    if (debug()) return;
    calls_->give_up_on_mismatch([&] { exchange_counts(*this, internal_comm(), send_counts, recv_counts); });
  });
}

}  // namespace mn
