// What the operations of an NCCL communicator do when their streams come to them.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/nccl_comm.hpp"

namespace mn::stand_in {

bool Comm::agree(const Call& call) {
  mine().call = call;
  mine().call.number = collectives_++;  // messages do not count: their two ranks alone have them
  if (!meet()) return false;
  for (int r = 1; r < size_; ++r) {
    const Call& first = segment_.slot(0).call;
    const Call& other = segment_.slot(r).call;
    if (first == other) continue;
    fail(ncclInvalidUsage,
         "the ranks differ: rank 0 in " + first.text() + "; rank " + std::to_string(r) + " in " + other.text());
    if (rank_ == 0) complain("NCCL: " + words());
    break;
  }
  return meet();
}

/// Shows a piece to all ranks; true when each has shown its own.
bool Comm::share(const std::byte* from, std::size_t bytes) {
  if (from != nullptr) std::memcpy(segment_.area(rank_), from, bytes);
  return meet();
}

/// Computes this rank's part of a result from the pieces that all ranks show.
void Comm::take(const Call& call, int turn, std::byte* to, std::size_t part, std::size_t count) {
  const auto type = static_cast<ncclDataType_t>(call.type);
  const std::string_view name = call.name;
  const std::size_t bytes = count * size_of(type);
  if (name == "Broadcast") {
    std::memcpy(to, segment_.area(call.root), bytes);
  } else if (name == "AllGather") {
    for (int r = 0; r < size_; ++r) std::memcpy(to + static_cast<std::size_t>(r) * part, segment_.area(r), bytes);
  } else if (name == "AllReduce" || (name == "Reduce" && rank_ == call.root) ||
             (name == "ReduceScatter" && rank_ == turn)) {
    reduce(to, count, type, static_cast<ncclRedOp_t>(call.op), size_, [this](int r) { return segment_.area(r); });
  }
}

void Comm::collective(const Call& call, const std::byte* send, std::byte* recv) {
  if (!agree(call)) return;
  const auto type = static_cast<ncclDataType_t>(call.type);
  const std::string_view name = call.name;
  const std::size_t part = call.count * size_of(type);
  const bool gives = name != "Broadcast" || rank_ == call.root;
  const int turns = name == "ReduceScatter" ? size_ : 1;
  for (int turn = 0; turn < turns; ++turn) {
    const std::byte* const from = gives && part > 0 ? send + static_cast<std::size_t>(turn) * part : nullptr;
    for (std::size_t at = 0; at < part; at += kPieceBytes) {
      const std::size_t count = std::min(kPieceBytes, part - at) / size_of(type);
      if (!share(from != nullptr ? from + at : nullptr, count * size_of(type))) return;
      take(call, turn, recv + at, part, count);
      if (!meet()) return;  // until all have taken
    }
  }
}

void Comm::move(Message& message, Mail& mail) {
  const std::size_t some = std::min(kMailBytes, message.count * size_of(message.type) - message.moved);
  if (message.is_send) {
    mail.count = message.count;
    mail.type = message.type;
    std::memcpy(mail.data, message.data + message.moved, some);
  } else if (mail.count != message.count || mail.type != message.type) {
    Call sent{0, "Send", mail.count, mail.type};
    Call expected{0, "Recv", message.count, message.type};
    fail(ncclInvalidUsage, "the ranks differ: rank " + std::to_string(message.peer) + " in " + sent.text() + "; rank " +
                               std::to_string(rank_) + " in " + expected.text());
    complain("NCCL: " + words());
    return;
  } else {
    std::memcpy(message.data + message.moved, mail.data, some);
  }
  message.moved += some;
  mail.is_full = message.is_send;
}

bool Comm::move(std::vector<Message>& messages) {
  bool is_done = true;
  std::vector<bool> is_busy(2 * static_cast<std::size_t>(size_));  // to and from a peer, messages go one by one
  for (Message& message : messages) {
    const std::size_t lane = 2 * static_cast<std::size_t>(message.peer) + (message.is_send ? 1 : 0);
    if (message.moved == message.count * size_of(message.type) || is_busy[lane]) continue;
    is_busy[lane] = true;
    is_done = false;
    Mail& mail = message.is_send ? segment_.mail(rank_, message.peer) : segment_.mail(message.peer, rank_);
    if (mail.is_full != message.is_send) move(message, mail);
  }
  return is_done;
}

void Comm::exchange(std::uint64_t number, std::vector<Message> messages) {
  mine().call = {number, "Send and Recv", messages.size()};
  wait_for_ranks([&] { return move(messages); });
}

}  // namespace mn::stand_in
