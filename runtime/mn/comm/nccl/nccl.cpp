#include <mn/comm/nccl/nccl.hpp>

#include <cassert>

#include <mn/core/error.hpp>

namespace mn {
namespace {

/// In the order of DType. NCCL has no booleans, so they travel as uint8.
ncclDataType_t nccl_type(DType dtype) {
  constexpr ncclDataType_t kNone = ncclNumTypes;
  constexpr ncclDataType_t kTypes[] = {ncclUint8,   ncclInt32,   ncclInt64, ncclFloat16, ncclBfloat16,
                                       ncclFloat32, ncclFloat64, ncclUint8, ncclInt8,    ncclUint64,
                                       kNone,       kNone,       ncclUint32};
  static_assert(std::size(kTypes) == kDTypeCount);
  if (kTypes[static_cast<std::size_t>(dtype)] == kNone) {
    throw ArgumentError("NCCL has no " + std::string(name_of(dtype)) + ": convert it to int32 first");
  }
  return kTypes[static_cast<std::size_t>(dtype)];
}

ncclRedOp_t nccl_op(ReduceOp op) {
  constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMin, ncclMax};
  return kOps[static_cast<std::size_t>(op)];
}

cudaStream_t stream_of(const CudaStream& stream) { return static_cast<cudaStream_t>(stream.handle()); }

}  // namespace

template <class Call>
void Nccl::enqueue(std::string_view operation, std::size_t bytes, const Call& call, std::source_location where) {
  const std::lock_guard lock(mutex_);
  check_usable();
  // A later asynchronous error does not name its operation, so the last one is kept.
  operation_ = operation;
  bytes_ = bytes;
  // Invariant 1: a later wait would wait forever for work that was never enqueued.
  if (const ncclResult_t code = call(); code != ncclSuccess) fail(code, where);
}

void Nccl::allreduce(BufferView buffer, ReduceOp op, const CudaStream& stream) {
  enqueue("allreduce", buffer.bytes(), [&] {
    return ncclAllReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.dtype), nccl_op(op), comm_,
                         stream_of(stream));
  });
}

void Nccl::reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root, const CudaStream& stream) {
  enqueue("reduce", send.bytes(), [&] {
    return ncclReduce(send.data, recv.data, send.count, nccl_type(send.dtype), nccl_op(op), root, comm_,
                      stream_of(stream));
  });
}

void Nccl::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op, const CudaStream& stream) {
  enqueue("reduce_scatter", recv.bytes(), [&] {
    return ncclReduceScatter(send.data, recv.data, recv.count, nccl_type(recv.dtype), nccl_op(op), comm_,
                             stream_of(stream));
  });
}

void Nccl::bcast(BufferView buffer, int root, const CudaStream& stream) {
  enqueue("bcast", buffer.bytes(), [&] {
    return ncclBroadcast(buffer.data, buffer.data, buffer.count, nccl_type(buffer.dtype), root, comm_,
                         stream_of(stream));
  });
}

void Nccl::allgather(ConstBufferView send, BufferView recv, const CudaStream& stream) {
  enqueue("allgather", recv.bytes(), [&] {
    return ncclAllGather(send.data, recv.data, send.count, nccl_type(send.dtype), comm_, stream_of(stream));
  });
}

bool Nccl::must_connect(std::vector<bool>& connected, std::size_t peer) {
  const bool must = !connected[peer];
  connected[peer] = true;
  return must;
}

void Nccl::send(ConstBufferView buffer, int dest, const CudaStream& stream) {
  const auto call = [&] {
    return ncclSend(buffer.data, buffer.count, nccl_type(buffer.dtype), dest, comm_, stream_of(stream));
  };
  const bool connects = must_connect(sends_to_, static_cast<std::size_t>(dest));
  enqueue("send", buffer.bytes(), [&] { return connects ? aside(call) : call(); });
}

void Nccl::recv(BufferView buffer, int source, const CudaStream& stream) {
  const auto call = [&] {
    return ncclRecv(buffer.data, buffer.count, nccl_type(buffer.dtype), source, comm_, stream_of(stream));
  };
  const bool connects = must_connect(receives_from_, static_cast<std::size_t>(source));
  enqueue("recv", buffer.bytes(), [&] { return connects ? aside(call) : call(); });
}

void Nccl::alltoall(ConstBufferView send, BufferView recv, const CudaStream& stream) {
  const std::size_t part = send.count / static_cast<std::size_t>(size_);
  std::vector<ConstBufferView> sent;
  std::vector<BufferView> received;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size_); ++rank) {
    sent.push_back(send.slice(rank * part, part));
    received.push_back(recv.slice(rank * part, part));
  }
  group("alltoall", recv.bytes(), sent, received, stream);
}

void Nccl::exchange(std::span<const ConstBufferView> sent, std::span<const BufferView> received,
                    const CudaStream& stream) {
  std::size_t bytes = 0;
  for (const BufferView& part : received) bytes += part.bytes();
  group("exchange of parts", bytes, sent, received, stream);
}

void Nccl::group(std::string_view operation, std::size_t bytes, std::span<const ConstBufferView> sent,
                 std::span<const BufferView> received, const CudaStream& stream) {
  assert(sent.size() == static_cast<std::size_t>(size_) && received.size() == sent.size());
  // A group with a new connection waits for the peer, so it runs on a separate thread.
  bool connects = false;
  for (std::size_t peer = 0; peer < sent.size(); ++peer) {
    if (sent[peer].count > 0) connects |= must_connect(sends_to_, peer);
    if (received[peer].count > 0) connects |= must_connect(receives_from_, peer);
  }
  // A copy: `comm_` becomes null if the communicator is aborted while the call runs on the thread of aside().
  const auto call = [&, comm = comm_] {
    ncclResult_t first_error = ncclGroupStart();
    const auto go_on = [&](ncclResult_t code) { first_error = first_error != ncclSuccess ? first_error : code; };
    for (std::size_t peer = 0; peer < sent.size() && first_error == ncclSuccess; ++peer) {
      const ConstBufferView& out = sent[peer];
      const BufferView& in = received[peer];
      const int rank = static_cast<int>(peer);
      // The other rank skips an empty part, too.
      if (out.count > 0) go_on(ncclSend(out.data, out.count, nccl_type(out.dtype), rank, comm, stream_of(stream)));
      if (in.count > 0) go_on(ncclRecv(in.data, in.count, nccl_type(in.dtype), rank, comm, stream_of(stream)));
    }
    const ncclResult_t end = ncclGroupEnd();  // invariant 5: the group is closed even after an error
    return first_error != ncclSuccess ? first_error : end;
  };
  enqueue(operation, bytes, [&] { return connects ? aside(call) : call(); });
}

}  // namespace mn
