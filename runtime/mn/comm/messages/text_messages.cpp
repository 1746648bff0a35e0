#include <mn/comm/messages/text_messages.hpp>

#include <cstdint>
#include <utility>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/messages/first_message.hpp>

namespace mn {
namespace {

/// Returns a text of `length` bytes that move(text) has filled. If move() throws, MPI may still write to the text.
template <class Move>
std::string received(std::uint64_t length, const Move& move) {
  const KeptForMpi text(std::string(length, '\0'));
  if (length > 0) move(*text);
  return std::move(*text);
}

}  // namespace

void send_text(MPI_Comm comm, const std::string& text, int dest, int tag, SendMode mode) {
  const std::uint64_t length = text.size();
  if (mode == SendMode::kDebug) {
    const MpiCount n(sizeof length, DType::kUInt8);
    send_in_debug_mode({&length, sizeof length, DType::kUInt8}, n, dest, tag, comm,
                       "send_obj to rank " + std::to_string(dest));
  } else {
    mpi_check(MPI_Send(&length, 1, MPI_UINT64_T, dest, tag, comm), "sending an object's length");
  }
  if (text.empty()) return;
  const MpiCount n(length, DType::kUInt8);
  call_mpi(MPI_Send, MPI_Isend, "sending an object", length, text.data(), n.count(), n.type(), dest, tag, comm);
}

std::string recv_text(MPI_Comm comm, int source, int tag, int* sender) {
  const KeptForMpi<std::uint64_t> length(0);
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Irecv(&*length, 1, MPI_UINT64_T, source, tag, comm, &request), "receiving an object's length");
  mpi_wait(request, &status, "receiving an object's length");
  if (sender != nullptr) *sender = status.MPI_SOURCE;
  return received(*length, [&](std::string& text) {
    const MpiCount n(text.size(), DType::kUInt8);
    mpi_check(MPI_Irecv(text.data(), n.count(), n.type(), status.MPI_SOURCE, status.MPI_TAG, comm, &request),
              "receiving an object", text.size());
    mpi_wait({&request, 1}, "receiving an object", text.size());
  });
}

std::string bcast_text(MPI_Comm comm, const std::string& own, int root) {
  const bool is_root = rank_in(comm) == root;
  const KeptForMpi<std::uint64_t> length(own.size());
  call_mpi(MPI_Bcast, MPI_Ibcast, "broadcasting an object's length", 0, &*length, 1, MPI_UINT64_T, root, comm);
  return received(*length, [&](std::string& text) {
    if (is_root) text = own;
    const MpiCount n(*length, DType::kUInt8);
    call_mpi(MPI_Bcast, MPI_Ibcast, "broadcasting an object", *length, text.data(), n.count(), n.type(), root, comm);
  });
}

std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& own, int root) {
  if (rank_in(comm) != root) {
    send_text(comm, own, root, kInternalTag, SendMode::kBuffered);
    return {};
  }
  const int size = size_of(comm);
  std::vector<std::string> texts;
  for (int source = 0; source < size; ++source) {
    texts.push_back(source == root ? own : recv_text(comm, source, kInternalTag));
  }
  return texts;
}

}  // namespace mn
