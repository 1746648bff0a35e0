// The communicator's calls between two ranks: send, recv, isend, irecv (PendingMessage), sendrecv.
//
// Invariants:
// 1. A message is a FirstMessage. If it does not hold the elements, they directly follow in a message of MPI with the
//    same tag. A receiver that accepts any rank or any tag takes the elements from the rank that has sent the first
//    message, and with its tag.
// 2. The receiver compares count and dtype with its own buffer. If they differ, recv() throws before it receives
//    elements.
// 3. Counts above INT_MAX travel as one element of a derived type (MpiCount).
// 4. In debug mode a send of any size completes only after the receiver has begun to receive.
//
// Cost: one message of MPI up to FirstMessage::kMaxElements, then two. If MPI does not take device memory, host copies.
#include <cstring>
#include <memory>
#include <utility>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/call_host_copies.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/headed_messages.hpp>
#include <mn/comm/messages/first_message.hpp>
#include <mn/comm/messages/pending_message.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

int mpi_source(int source) { return source == Communicator::kAnySource ? MPI_ANY_SOURCE : source; }

/// A first message takes its elements from the host, even if MPI takes device memory.
HostCopies* copies_for(const ConstBufferView& elements, CallHostCopies& copies) {
  return FirstMessage::holds(elements) ? copies.after(elements) : copies.for_mpi(elements);
}

/// If an exception ends the wait, cancels the receive, because the memory is about to be freed.
FirstMessage receive_first(int source, int tag, MPI_Comm comm, MPI_Status& status) {
  FirstMessage first;
  const std::string what = describe_recv(source);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Irecv(first.data(), first.size(), MPI_BYTE, source, tag, comm, &request), what);
  try {
    mpi_wait(request, &status, what);
  } catch (const CommError&) {
    if (request != MPI_REQUEST_NULL && MPI_Cancel(&request) == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
    throw;
  }
  first.set_size(received_bytes(status));
  return first;
}

void send_part(const Communicator& comm, const ConstBufferView& part, int dest, int tag, const std::string& what) {
  const MpiCount n(part.count, part.dtype);
  if (comm.debug()) return send_in_debug_mode(part, n, dest, tag, comm.mpi_comm(), what);
  call_mpi(MPI_Send, MPI_Isend, what, part.bytes(), part.data, n.count(), n.type(), dest, tag, comm.mpi_comm());
}

CallScope begin_send(const Communicator& comm, CallCheck& calls, const char* call, const ConstBufferView& buffer,
                     int dest, int tag) {
  calls.require_open(call);
  check_peer(call, "dest", dest, comm.rank(), comm.size());
  check_tag(call, tag, Communicator::kMaxTag);
  check_buffer(call, "buffer", buffer, comm.device());
  return calls.message(call, buffer, dest);
}

CallScope begin_receive(const Communicator& comm, CallCheck& calls, const char* call, const BufferView& buffer,
                        int source, int tag) {
  const bool from_any = source == Communicator::kAnySource;
  calls.require_open(call);
  if (!from_any) check_peer(call, "source", source, comm.rank(), comm.size());
  if (tag != Communicator::kAnyTag) check_tag(call, tag, Communicator::kMaxTag);
  check_buffer(call, "buffer", buffer, comm.device());
  return calls.message(call, buffer, from_any ? -1 : source);
}

}  // namespace

void HeadedMessages::send(Communicator& comm, ConstBufferView head, ConstBufferView elements, int dest, int tag) {
  const CallScope call = begin_send(comm, *comm.calls_, "send", elements, dest, tag);
  on_host(copies_for(elements, *comm.host_copies_), elements, {}, [&](ConstBufferView in, BufferView) {
    const std::string what = describe_send(in, dest);
    const KeptForMpi<FirstMessage> first(FirstMessage(head, in));
    send_part(comm, {first->data(), static_cast<std::size_t>(first->size()), DType::kUInt8}, dest, tag, what);
    if (!FirstMessage::holds(in)) send_part(comm, in, dest, tag, what);
  });
}

int HeadedMessages::recv(Communicator& comm, BufferView head, const Elements& elements, int source, int tag) {
  const CallScope call = begin_receive(comm, *comm.calls_, "recv", head, source, tag);
  return receive(comm, head, elements, source, tag);
}

int HeadedMessages::receive(Communicator& comm, BufferView head, const Elements& elements, int source, int tag) {
  MPI_Status status = {};
  const FirstMessage first = receive_first(mpi_source(source), tag, comm.mpi_comm(), status);
  const std::string what = describe_recv(status.MPI_SOURCE);
  first.take_head(head, what);
  const BufferView all = elements(status.MPI_SOURCE);
  first.check(all, what);
  on_host(copies_for(all, *comm.host_copies_), {}, all, [&](ConstBufferView, BufferView out) {
    if (FirstMessage::holds(out)) return first.take_elements(out);
    const MpiCount n(out.count, out.dtype);
    const auto receive = [](auto... arguments) { return MPI_Recv(arguments..., MPI_STATUS_IGNORE); };
    call_mpi(receive, MPI_Irecv, what, out.bytes(), out.data, n.count(), n.type(), status.MPI_SOURCE, status.MPI_TAG,
             comm.mpi_comm());
  });
  return status.MPI_SOURCE;
}

void Communicator::send(ConstBufferView buffer, int dest, int tag) {
  HeadedMessages::send(*this, {}, buffer, dest, tag);
}

int Communicator::recv(BufferView buffer, int source, int tag) {
  const CallScope call = begin_receive(*this, *calls_, "recv", buffer, source, tag);
  return HeadedMessages::receive(
      *this, {}, [&](int /*source*/) { return buffer; }, source, tag);
}

Request Communicator::isend(ConstBufferView buffer, int dest, int tag) {
  const CallScope call = begin_send(*this, *calls_, "isend", buffer, dest, tag);
  const BufferView view(const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device,
                        buffer.stream);  // isend() only reads
  auto message = std::make_unique<PendingMessage>(describe_send(buffer, dest), calls_,
                                                  host_copies_->for_request(buffer, FirstMessage::holds(buffer)), view);
  message->send(dest, tag, mpi_comm());
  return Request(std::move(message));
}

Request Communicator::irecv(BufferView buffer, int source, int tag) {
  if (source == kAnySource) {
    throw ArgumentError("irecv: the source must be one rank; to receive from any rank, call recv()");
  }
  const CallScope call = begin_receive(*this, *calls_, "irecv", buffer, source, tag);
  auto message = std::make_unique<PendingMessage>(
      describe_recv(source), calls_, host_copies_->for_request(buffer, FirstMessage::holds(buffer)), buffer);
  message->receive(source, tag, mpi_comm());
  return Request(std::move(message));
}

void Communicator::sendrecv(ConstBufferView send, int dest, BufferView recv, int source, int tag) {
  calls_->require_open("sendrecv");
  const bool to_itself = dest == rank() && source == dest;
  if (source != kAnySource && !to_itself) check_peer("sendrecv", "source", source, rank(), size());  // before sending
  check_buffer("sendrecv", "recv", recv, device_);
  if (to_itself) {  // for example, in a ring of one rank
    check_buffer("sendrecv", "send", send, device_);
    const CallScope call = calls_->message("sendrecv", send, dest);
    FirstMessage({}, send).check(recv, describe_recv(source));
    return on_host(host_copies_->after(send, recv), send, recv, [](ConstBufferView in, BufferView out) {
      if (in.count > 0) std::memmove(out.data, in.data, in.bytes());
    });
  }
  // With blocking sends, every rank of a ring would wait in its send.
  Request sent = isend(send, dest, tag);
  this->recv(recv, source, tag);
  sent.wait();
}

}  // namespace mn
