#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <mn/comm/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/cuda.hpp>
#include <mn/comm/device_collectives.hpp>
#include <mn/comm/host_stage.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/registry.hpp>
#include <mn/comm/shared_reducer.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

std::string by(ReduceOp op) { return ", " + std::string(name_of(op)); }

std::shared_ptr<std::byte> zeroed(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* memory = static_cast<std::byte*>(operator new(std::max<std::size_t>(bytes, 1), kAlignment));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* old) { operator delete(old, kAlignment); }};
}

std::shared_ptr<std::byte> zeroed_pinned(std::size_t bytes, int device) {
  cuda_set_device(device);
  std::shared_ptr<std::byte> memory = cuda_allocate_pinned(std::max<std::size_t>(bytes, 1));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace

Communicator::Communicator(CommunicatorSetup setup)
    : name_(std::move(setup.name)),
      comm_(std::move(setup.comm)),
      topology_(std::move(setup.topology)),
      device_(setup.device),
      count_limit_(setup.count_limit),
      allreduce_grad_dtype_(setup.allreduce_grad_dtype),
      mpi_takes_device_buffers_(mpi_is_cuda_aware()),
      calls_(std::make_unique<CallCheck>(comm_.get(), setup.debug)),
      reducer_(std::make_unique<OrderedReducer>(comm_.get(), setup.count_limit)) {}

Communicator::~Communicator() = default;

bool Communicator::debug() const noexcept { return calls_->debug(); }

void Communicator::finalize() {
  if (!comm_) return;
  calls_->collective("finalize", nothing, nothing);
  do_finalize();
  stage_.reset();
  reducer_.reset();
  comm_.reset();
  calls_->close();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key) const {
  calls_->collective("split", nothing, nothing);
  Mpi part = Mpi::split(comm_.get(), color, key);
  if (!part) return nullptr;
  Topology topology = find_topology(part.get());
  return make_backend(
      {name_, std::move(part), std::move(topology), device_, count_limit_, calls_->debug(), allreduce_grad_dtype_});
}

HostStage& Communicator::host_stage() {
  if (!stage_) stage_ = std::make_unique<HostStage>(device_.index);
  return *stage_;
}

HostStage* Communicator::stage_after(const ConstBufferView& first, const ConstBufferView& second) {
  if (!lies_on_device(first) && !lies_on_device(second)) return nullptr;
  host_stage().after(std::initializer_list<ConstBufferView>{first, second});
  return stage_.get();
}

HostStage* Communicator::stage_for_mpi(const ConstBufferView& first, const ConstBufferView& second) {
  HostStage* const stage = stage_after(first, second);
  if (stage == nullptr || !mpi_takes_device_buffers_) return stage;
  stage->wait();  // MPI knows no streams
  return nullptr;
}

template <class Buffers, class Call>
bool Communicator::on_device(const Buffers& buffers, const Call& call) {
  DeviceCollectives* device = device_collectives();
  if (device == nullptr || !std::ranges::all_of(buffers, lies_on_device)) return false;
  for_each_stream(buffers, [&](void* stream) { device->after(stream); });
  call(*device);
  device->wait();
  return true;
}

void Communicator::bcast(BufferView buffer, int root, std::string_view name) {
  const auto checks = [&] {
    check_rank("bcast", "root", root, size());
    check_buffer("bcast", "buffer", buffer, device_);
  };
  const auto details = [&] {
    const std::string what = name.empty() ? std::string() : " (" + std::string(name) + ")";
    return described(buffer) + what + from_root(root);
  };
  calls_->collective("bcast", checks, details);
  if (on_device({buffer}, [&](DeviceCollectives& device) { device.bcast(buffer, root); })) return;
  on_host(stage_for_mpi(buffer), {}, buffer, [&](ConstBufferView, BufferView out) {
    const MpiCount n(out.count, out.dtype, count_limit_);
    mpi_check(MPI_Bcast(out.data, n.count(), n.type(), root, mpi_comm()), "bcast", out.bytes());
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
  calls_->collective("gather", checks, [&] { return described(send) + from_root(root); });
  if (rank() != root) recv = {};
  on_host(stage_for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count, in.dtype, count_limit_);
    const bool in_place = rank() == root && is_in_place(out, in, root);
    mpi_check(MPI_Gather(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(), root,
                         mpi_comm()),
              "gather", in.bytes());
  });
}

void Communicator::allgather(ConstBufferView send, BufferView recv) {
  const auto checks = [&] {
    check_buffer("allgather", "send", send, device_);
    check_buffer("allgather", "recv", recv, device_);
    check_same_dtype("allgather", send, recv);
    check_parts("allgather", "recv", recv, "send", send, size());
    check_in_place("allgather", recv, send, rank());
  };
  const auto details = [&] { return described(send) + memory_of("recv", recv) + aliasing(recv, send, rank()); };
  calls_->collective("allgather", checks, details);
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.allgather(send, recv); })) return;
  on_host(stage_for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count, in.dtype, count_limit_);
    const bool in_place = is_in_place(out, in, rank());
    mpi_check(MPI_Allgather(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(),
                            mpi_comm()),
              "allgather", in.bytes());
  });
}

void Communicator::alltoall(ConstBufferView send, BufferView recv) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto checks = [&] {
    check_buffer("alltoall", "send", send, device_);
    check_buffer("alltoall", "recv", recv, device_);
    check_same_dtype("alltoall", send, recv);
    check_parts("alltoall", "send", send, "each part", send.slice(0, send.count / ranks), size());
    check_parts("alltoall", "recv", recv, "each part of send", send.slice(0, send.count / ranks), size());
    check_in_place("alltoall", recv, send, 0);
  };
  const auto details = [&] { return described(send) + memory_of("recv", recv) + aliasing(recv, send, 0); };
  calls_->collective("alltoall", checks, details);
  const auto enqueue = [&](DeviceCollectives& device) { device.alltoall(send, recv); };
  if (!is_in_place(recv, send, 0) && on_device({send, recv}, enqueue)) return;
  on_host(stage_for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(in.count / ranks, in.dtype, count_limit_);
    const bool in_place = in.data == out.data;
    mpi_check(
        MPI_Alltoall(in_place ? MPI_IN_PLACE : in.data, n.count(), n.type(), out.data, n.count(), n.type(), mpi_comm()),
        "alltoall", in.bytes());
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
  calls_->collective("scatter", checks, [&] { return described(recv) + from_root(root); });
  if (rank() != root) send = {};
  on_host(stage_for_mpi(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(out.count, out.dtype, count_limit_);
    const bool in_place = rank() == root && is_in_place(in, out, root);
    mpi_check(MPI_Scatter(in.data, n.count(), n.type(), in_place ? MPI_IN_PLACE : out.data, n.count(), n.type(), root,
                          mpi_comm()),
              "scatter", out.bytes());
  });
}

void Communicator::allreduce(BufferView buffer, ReduceOp op) {
  const auto checks = [&] {
    check_buffer("allreduce", "buffer", buffer, device_);
    check_reducible("allreduce", buffer);
  };
  calls_->collective("allreduce", checks, [&] { return described(buffer) + by(op); });
  if (on_device({buffer}, [&](DeviceCollectives& device) { device.allreduce(buffer, op); })) return;
  on_host(stage_after(buffer), {}, buffer, [&](ConstBufferView, BufferView out) {
    do_allreduce(out, {out.dtype, op});
  });
}

void Communicator::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  const auto checks = [&] {
    check_buffer("reduce_scatter", "send", send, device_);
    check_buffer("reduce_scatter", "recv", recv, device_);
    check_same_dtype("reduce_scatter", send, recv);
    check_parts("reduce_scatter", "send", send, "recv", recv, size());
    check_in_place("reduce_scatter", send, recv, rank());
    check_reducible("reduce_scatter", recv);
  };
  calls_->collective("reduce_scatter", checks, [&] { return described(recv) + by(op) + memory_of("send", send); });
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.reduce_scatter(send, recv, op); })) return;
  on_host(stage_after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    reducer_->reduce_scatter(in.data, out.data, out.count, {out.dtype, op});
  });
}

void Communicator::barrier() {
  calls_->collective("barrier", nothing, nothing);
  mpi_check(MPI_Barrier(mpi_comm()), "barrier");
}

bool Communicator::do_allreduce_grad_on_device(std::span<const BufferView> gradients, double scale) {
  return on_device(gradients, [&](DeviceCollectives& device) { device.allreduce_grad(gradients, scale); });
}

void Communicator::do_allreduce(BufferView buffer, const Reduction& reduction) {
  reducer_->allreduce(buffer.data, buffer.count, reduction);
}

void Communicator::do_finalize() {}

bool same_on_all_ranks(std::uint64_t value, Communicator& comm) {
  // The least value, and the complement of the greatest.
  const auto number = static_cast<std::int64_t>(value);
  std::int64_t extremes[] = {number, ~number};
  comm.allreduce(extremes, ReduceOp::kMin);
  return extremes[0] == ~extremes[1];
}

void prove_equal(const nlohmann::json& object, std::string_view what, Communicator& comm) {
  if (same_on_all_ranks(hash64(object.dump()), comm)) return;
  const auto all = comm.allgather_obj(object);
  const auto other = std::ranges::find_if(all, [&](const auto& each) { return each != all.front(); });
  std::string key;
  for (const auto& [name, value] : all.front().items()) {
    if (key.empty() && (!other->contains(name) || other->at(name) != value)) key = name;
  }
  const auto on = [&](const nlohmann::json& each) { return each.contains(key) ? each.at(key).dump() : "absent"; };
  throw UsageError("the ranks differ in " + std::string(what) + ": " + key + " is " + on(all.front()) +
                   " on rank 0 and " + on(*other) + " on rank " + std::to_string(other - all.begin()) +
                   "; give every rank the same");
}

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) {
  calls_->collective("allocate", nothing, [&] { return " of " + std::to_string(bytes) + " bytes"; });
  if (auto memory = do_allocate(bytes)) return memory;
  return device_.type == DeviceType::kCuda ? zeroed_pinned(bytes, device_.index) : zeroed(bytes);
}

std::unique_ptr<SharedReducer> Communicator::share(std::span<const BufferView> buffers) {
  calls_->collective("share", nothing, [&] { return " of " + std::to_string(buffers.size()) + " buffers"; });
  return do_share(buffers);
}

std::shared_ptr<std::byte> Communicator::do_allocate(std::size_t /*bytes*/) { return nullptr; }

std::unique_ptr<SharedReducer> Communicator::do_share(std::span<const BufferView> /*buffers*/) { return nullptr; }

}  // namespace mn
