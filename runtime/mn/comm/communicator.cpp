#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <mn/comm/argument_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/host_stage.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

/// Calls move(in, out) with host copies where `stage` is not null.
template <class Move>
void on_host(HostStage* stage, ConstBufferView in, BufferView out, const Move& move) {
  if (stage == nullptr) return move(in, out);
  stage->reserve(in.bytes() + out.bytes(), 2);
  const ConstBufferView host_in = stage->copy_in(in);
  const BufferView host_out = stage->copy_in(out);
  stage->wait();
  move(host_in, host_out);
  stage->copy_out(out, host_out);
  stage->wait();
}

/// MPI_IN_PLACE if `part` is part `own` of `whole` already.
template <class Whole, class Part>
bool lies_in_place(const Whole& whole, const Part& part, int own) {
  return part.data == static_cast<const std::byte*>(whole.data) + static_cast<std::size_t>(own) * part.bytes();
}

bool is_floating(DType dtype) { return dtype >= DType::kFloat16; }

std::string gradient_name(std::size_t index) { return "gradient " + std::to_string(index); }

}  // namespace

Communicator::Communicator(CommunicatorSetup setup)
    : name_(std::move(setup.name)),
      comm_(std::move(setup.comm)),
      topology_(std::move(setup.topology)),
      device_(setup.device),
      count_limit_(setup.count_limit),
      mpi_takes_device_buffers_(mpi_is_cuda_aware()),
      reducer_(std::make_unique<OrderedReducer>(comm_.get(), setup.count_limit)) {}

Communicator::~Communicator() = default;

std::shared_ptr<Communicator> Communicator::split(int color, int key) const {
  Mpi part = Mpi::split(comm_.get(), color, key);
  if (!part) return nullptr;
  Topology topology = find_topology(part.get());
  return make_backend({name_, std::move(part), std::move(topology), device_, count_limit_});
}

HostStage* Communicator::stage_for(Device first, Device second, bool reduces) {
  const bool on_device = first.type != DeviceType::kCpu || second.type != DeviceType::kCpu;
  if (!on_device || (mpi_takes_device_buffers_ && !reduces)) return nullptr;
  if (!stage_) stage_ = std::make_unique<HostStage>(device_.index);
  return stage_.get();
}

void Communicator::send(ConstBufferView buffer, int dest, int tag) {
  check_rank("send", "dest", dest, size());
  check_tag("send", tag, kMaxTag);
  check_buffer("send", "buffer", buffer, device_);
  on_host(stage_for(buffer.device, {}, false), buffer, {}, [&](ConstBufferView in, BufferView) {
    const MpiCount n(in.count, in.dtype, count_limit_);
    mpi_check(MPI_Send(in.data, n.count(), n.type(), dest, tag, mpi_comm()), "send to rank " + std::to_string(dest),
              in.bytes());
  });
}

void Communicator::recv(BufferView buffer, int source, int tag) {
  check_rank("recv", "source", source, size());
  check_tag("recv", tag, kMaxTag);
  check_buffer("recv", "buffer", buffer, device_);
  on_host(stage_for(buffer.device, {}, false), {}, buffer, [&](ConstBufferView, BufferView out) {
    const MpiCount n(out.count, out.dtype, count_limit_);
    const std::string what = "recv from rank " + std::to_string(source);
    MPI_Status status;
    mpi_check(MPI_Recv(out.data, n.count(), n.type(), source, tag, mpi_comm(), &status), what, out.bytes());
    MPI_Count received = 0;
    mpi_check(MPI_Get_elements_x(&status, n.type(), &received), what, out.bytes());
    if (static_cast<std::size_t>(received) != out.count) {
      throw CommError(what + ": " + std::to_string(received) + " elements came, " + std::to_string(out.count) +
                      " were expected: send and recv must agree on count and dtype");
    }
  });
}

void Communicator::bcast(BufferView buffer, int root) {
  check_rank("bcast", "root", root, size());
  check_buffer("bcast", "buffer", buffer, device_);
  on_host(stage_for(buffer.device, {}, false), {}, buffer, [&](ConstBufferView, BufferView out) {
    const MpiCount n(out.count, out.dtype, count_limit_);
    mpi_check(MPI_Bcast(out.data, n.count(), n.type(), root, mpi_comm()), "bcast", out.bytes());
  });
}

void Communicator::gather(ConstBufferView send, BufferView recv, int root) {
  check_rank("gather", "root", root, size());
  check_buffer("gather", "send", send, device_);
  if (rank() == root) {
    check_buffer("gather", "recv", recv, device_);
    check_same_dtype("gather", send, recv);
    check_parts("gather", "recv", recv, "send", send, size());
    check_in_place("gather", recv, send, root);
  } else {
    recv = {};
  }
  on_host(stage_for(send.device, recv.device, false), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count, in.dtype, count_limit_);
    const bool in_place = rank() == root && lies_in_place(out, in, root);
    mpi_check(MPI_Gather(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(), root,
                         mpi_comm()),
              "gather", in.bytes());
  });
}

void Communicator::allgather(ConstBufferView send, BufferView recv) {
  check_buffer("allgather", "send", send, device_);
  check_buffer("allgather", "recv", recv, device_);
  check_same_dtype("allgather", send, recv);
  check_parts("allgather", "recv", recv, "send", send, size());
  check_in_place("allgather", recv, send, rank());
  on_host(stage_for(send.device, recv.device, false), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count, in.dtype, count_limit_);
    const bool in_place = lies_in_place(out, in, rank());
    mpi_check(MPI_Allgather(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(),
                            mpi_comm()),
              "allgather", in.bytes());
  });
}

void Communicator::alltoall(ConstBufferView send, BufferView recv) {
  check_buffer("alltoall", "send", send, device_);
  check_buffer("alltoall", "recv", recv, device_);
  check_same_dtype("alltoall", send, recv);
  const auto ranks = static_cast<std::size_t>(size());
  check_parts("alltoall", "send", send, "each part", send.slice(0, send.count / ranks), size());
  check_parts("alltoall", "recv", recv, "each part of send", send.slice(0, send.count / ranks), size());
  check_in_place("alltoall", recv, send, 0);
  on_host(stage_for(send.device, recv.device, false), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count / ranks, in.dtype, count_limit_);
    const bool in_place = in.data == out.data;
    mpi_check(
        MPI_Alltoall(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(), mpi_comm()),
        "alltoall", in.bytes());
  });
}

void Communicator::scatter(ConstBufferView send, BufferView recv, int root) {
  check_rank("scatter", "root", root, size());
  check_buffer("scatter", "recv", recv, device_);
  if (rank() == root) {
    check_buffer("scatter", "send", send, device_);
    check_same_dtype("scatter", send, recv);
    check_parts("scatter", "send", send, "recv", recv, size());
    check_in_place("scatter", send, recv, root);
  } else {
    send = {};
  }
  on_host(stage_for(send.device, recv.device, false), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(out.count, out.dtype, count_limit_);
    const bool in_place = rank() == root && lies_in_place(in, out, root);
    mpi_check(MPI_Scatter(in.data, n.count(), n.type(), in_place ? MPI_IN_PLACE : out.data, n.count(), n.type(), root,
                          mpi_comm()),
              "scatter", out.bytes());
  });
}

void Communicator::allreduce(BufferView buffer, ReduceOp op) {
  check_buffer("allreduce", "buffer", buffer, device_);
  on_host(stage_for(buffer.device, {}, true), {}, buffer, [&](ConstBufferView, BufferView out) {
    do_allreduce(out, {out.dtype, op});
  });
}

void Communicator::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  check_buffer("reduce_scatter", "send", send, device_);
  check_buffer("reduce_scatter", "recv", recv, device_);
  check_same_dtype("reduce_scatter", send, recv);
  check_parts("reduce_scatter", "send", send, "recv", recv, size());
  check_in_place("reduce_scatter", send, recv, rank());
  on_host(stage_for(send.device, recv.device, true), send, recv, [&](ConstBufferView in, BufferView out) {
    reducer_->reduce_scatter(in.data, out.data, out.count, {out.dtype, op});
  });
}

void Communicator::barrier() { mpi_check(MPI_Barrier(mpi_comm()), "barrier"); }

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) {
  if (auto memory = do_allocate(bytes)) return memory;
  constexpr std::align_val_t kAlignment{64};
  auto* memory = static_cast<std::byte*>(operator new(std::max<std::size_t>(bytes, 1), kAlignment));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* old) { operator delete(old, kAlignment); }};
}

void Communicator::allreduce_grad(std::span<const BufferView> gradients, double scale) {
  std::size_t bytes = 0;
  HostStage* stage = nullptr;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    check_buffer("allreduce_grad", gradient_name(i), gradients[i], device_);
    if (!is_floating(gradients[i].dtype)) {
      throw ArgumentError("allreduce_grad: " + gradient_name(i) + " holds " + std::string(name_of(gradients[i].dtype)) +
                          "; gradients are floats");
    }
    bytes += gradients[i].bytes();
    if (stage == nullptr) stage = stage_for(gradients[i].device, {}, true);
  }
  if (stage == nullptr) return do_allreduce_grad(gradients, scale);
  stage->reserve(bytes, gradients.size());
  std::vector<BufferView> on_host;
  for (const BufferView& gradient : gradients) on_host.push_back(stage->copy_in(gradient));
  stage->wait();
  do_allreduce_grad(on_host, scale);
  for (std::size_t i = 0; i < gradients.size(); ++i) stage->copy_out(gradients[i], on_host[i]);
  stage->wait();
}

void Communicator::do_allreduce(BufferView buffer, const Reduction& reduction) {
  reducer_->allreduce(buffer.data, buffer.count, reduction);
}

std::shared_ptr<std::byte> Communicator::do_allocate(std::size_t /*bytes*/) { return nullptr; }

}  // namespace mn
