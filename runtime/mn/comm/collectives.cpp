// The communicator's collective calls in which every rank passes equally many elements. The device's collectives,
// shared memory (host_backends.hpp), MessageReducer (reductions in rank order) or MPI make the call.
#include <cstddef>
#include <cstring>
#include <vector>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/call_host_copies.hpp>
#include <mn/comm/collective_checks.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/on_device.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

std::string by(ReduceOp op) { return ", " + std::string(name_of(op)); }

/// With a time-out this is an MPI_Ibarrier. It would end the process if another rank made a different call.
void wait_for_all(CallCheck& calls, MPI_Comm comm) {
  if (timed_call() != nullptr) calls.match("barrier", {});
  call_mpi(MPI_Barrier, MPI_Ibarrier, "barrier", 0, comm);
}

}  // namespace

void Communicator::bcast(BufferView buffer, int root, std::string_view name) {
  const auto checks = [&] { check_bcast("bcast", *this, buffer, root); };
  const auto details = [&] {
    const std::string what = name.empty() ? std::string() : " (" + std::string(name) + ")";
    return described(buffer) + what + from_root(root);
  };
  const auto call = calls_->collective("bcast", buffer, checks, details);
  if (on_device({buffer}, [&](DeviceCollectives& device) { device.bcast(buffer, root); })) return;
  calls_->match("bcast", buffer, root);
  const bool is_root = rank() == root;
  // The root only sends, and all other ranks only receive.
  const ConstBufferView send = is_root ? buffer : BufferView();
  const BufferView recv = is_root ? BufferView() : buffer;
  on_host(host_copies_->for_mpi(buffer), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(buffer.count, buffer.dtype);
    void* const data = is_root ? const_cast<void*>(in.data) : out.data;
    call_mpi(MPI_Bcast, MPI_Ibcast, "bcast", buffer.bytes(), data, n.count(), n.type(), root, internal_comm());
  });
}

void Communicator::gather(ConstBufferView send, BufferView recv, int root) {
  const auto checks = [&] {
    check_rank("gather", "root", root, size());
    check_buffer("gather", "send", send, device_);
    if (rank() != root) return;
    check_buffer("gather", "recv", recv, device_);
    check_same_dtype("gather", send, recv);
    check_parts("gather", "recv", recv, "send", send, size());
    check_in_place("gather", recv, send, root);
  };
  const auto call = calls_->collective("gather", send, checks, [&] { return described(send) + from_root(root); });
  if (rank() != root) recv = {};
  calls_->match("gather", send, root);
  on_host(host_copies_->for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count, in.dtype);
    const bool in_place = rank() == root && is_in_place(out, in, root);
    call_mpi(MPI_Gather, MPI_Igather, "gather", in.bytes(), in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(),
             out.data, n.count(), n.type(), root, internal_comm());
  });
}

void Communicator::allgather(ConstBufferView send, BufferView recv) {
  const auto checks = [&] { check_allgather("allgather", *this, send, recv); };
  const auto details = [&] { return described(send) + memory_of("recv", recv); };
  const auto call = calls_->collective("allgather", send, checks, details);
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.allgather(send, recv); })) return;
  calls_->match("allgather", send);
  on_host(host_copies_->for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const bool on_host = !lies_on_device(in) && !lies_on_device(out);
    if (on_host && do_allgather(in, out)) return;
    const MpiCount n(in.count, in.dtype);
    // MPI requires MPI_IN_PLACE on all ranks or on none, but only some ranks' parts may lie in place.
    bool in_place = is_in_place(out, in, rank());
    if (!in_place && in.count > 0 && on_host) {
      const std::size_t own = static_cast<std::size_t>(rank()) * in.bytes();
      std::memcpy(static_cast<std::byte*>(out.data) + own, in.data, in.bytes());
      in_place = true;
    }
    call_mpi(MPI_Allgather, MPI_Iallgather, "allgather", in.bytes(), in_place ? MPI_IN_PLACE : in.data, n.count(),
             n.type(), out.data, n.count(), n.type(), internal_comm());
  });
}

void Communicator::alltoall(ConstBufferView send, BufferView recv) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto checks = [&] {
    check_buffers("alltoall", send, recv, device_);
    check_parts("alltoall", "send", send, "each part", send.slice(0, send.count / ranks), size());
    check_parts("alltoall", "recv", recv, "each part of send", send.slice(0, send.count / ranks), size());
    check_in_place("alltoall", recv, send, 0);
  };
  const auto call =
      calls_->collective("alltoall", send, checks, [&] { return described(send) + memory_of("recv", recv); });
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.alltoall(send, recv); })) return;
  calls_->match("alltoall", send);
  const bool in_place = is_in_place(recv, send, 0);
  on_host(in_place ? host_copies_->after(send, recv) : host_copies_->for_mpi(send, recv), send, recv,
          [&](ConstBufferView in, BufferView out) {
            // MPI requires MPI_IN_PLACE on all ranks or on none, so no rank passes it.
            const KeptForMpi<std::vector<std::byte>> copy({});
            if (in_place && in.data == out.data) {
              copy->assign(static_cast<const std::byte*>(in.data), static_cast<const std::byte*>(in.data) + in.bytes());
              in.data = copy->data();
            }
            const MpiCount n(in.count / ranks, in.dtype);
            call_mpi(MPI_Alltoall, MPI_Ialltoall, "alltoall", in.bytes(), in.data, n.count(), n.type(), out.data,
                     n.count(), n.type(), internal_comm());
          });
}

void Communicator::scatter(ConstBufferView send, BufferView recv, int root) {
  const auto checks = [&] {
    check_rank("scatter", "root", root, size());
    check_buffer("scatter", "recv", recv, device_);
    if (rank() != root) return;
    check_buffer("scatter", "send", send, device_);
    check_same_dtype("scatter", send, recv);
    check_parts("scatter", "send", send, "recv", recv, size());
    check_in_place("scatter", send, recv, root);
  };
  const auto call = calls_->collective("scatter", recv, checks, [&] { return described(recv) + from_root(root); });
  if (rank() != root) send = {};
  calls_->match("scatter", recv, root);
  on_host(host_copies_->for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(out.count, out.dtype);
    const bool in_place = rank() == root && is_in_place(in, out, root);
    call_mpi(MPI_Scatter, MPI_Iscatter, "scatter", out.bytes(), in.data, n.count(), n.type(),
             in_place ? MPI_IN_PLACE : out.data, n.count(), n.type(), root, internal_comm());
  });
}

void Communicator::allreduce(BufferView buffer, ReduceOp op) {
  const auto checks = [&] { check_allreduce("allreduce", *this, buffer, op); };
  const auto call = calls_->collective("allreduce", buffer, checks, [&] { return described(buffer) + by(op); });
  if (on_device({buffer}, [&](DeviceCollectives& device) { device.allreduce(buffer, op); })) return;
  on_host(host_copies_->after(buffer), buffer, [&](BufferView whole) {
    calls_->give_up_on_mismatch([&] { do_allreduce(whole, Reduction::of(whole.dtype, op, size())); });
  });
}

void Communicator::reduce(ConstBufferView send, BufferView recv, ReduceOp op, int root) {
  const auto checks = [&] {
    check_rank("reduce", "root", root, size());
    check_buffer("reduce", "send", send, device_);
    check_reducible("reduce", send, op);
    if (rank() != root) return;
    check_buffer("reduce", "recv", recv, device_);
    check_same_dtype("reduce", send, recv);
    check_parts("reduce", "recv", recv, "send", send, 1);
    check_in_place("reduce", recv, send, 0);
    check_same_memory("reduce", send, recv);
  };
  const auto call =
      calls_->collective("reduce", send, checks, [&] { return described(send) + by(op) + from_root(root); });
  if (rank() != root) recv = {};
  // Only `send` decides: all ranks must make the same choice, and only the root has a `recv`.
  if (on_device({send}, [&](DeviceCollectives& device) { device.reduce(send, recv, op, root); })) return;
  calls_->match("reduce", send, root, op);
  on_host(host_copies_->after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    calls_->give_up_on_mismatch(
        [&] { reducer_->reduce(in.data, out.data, in.count, Reduction::of(in.dtype, op, size()), root); });
  });
}

void Communicator::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  const auto checks = [&] { check_reduce_scatter("reduce_scatter", *this, send, recv, op); };
  const auto call = calls_->collective("reduce_scatter", recv, checks,
                                       [&] { return described(recv) + by(op) + memory_of("send", send); });
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.reduce_scatter(send, recv, op); })) return;
  calls_->match("reduce_scatter", recv, -1, op);
  on_host(host_copies_->after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const Reduction reduction = Reduction::of(out.dtype, op, size());
    if (do_reduce_scatter(in, out, reduction)) return;
    calls_->give_up_on_mismatch([&] { reducer_->reduce_scatter(in.data, out.data, out.count, reduction); });
  });
}

void Communicator::barrier() {
  const auto call = calls_->collective("barrier");
  wait_for_all(*calls_, internal_comm());
}

void Communicator::monitored_barrier(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) throw ArgumentError("monitored_barrier: the time-out must be above 0");
  const CallTimeout limit(*this, timeout);
  const auto call = calls_->collective("monitored_barrier");
  wait_for_all(*calls_, internal_comm());
}

}  // namespace mn
