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
      internal_comm_(Mpi::duplicate(comm_.get())),
      topology_(std::move(setup.topology)),
      device_(setup.device),
      count_limit_(setup.count_limit),
      allreduce_grad_dtype_(setup.allreduce_grad_dtype),
      make_(setup.make),
      mpi_takes_device_buffers_(mpi_is_cuda_aware()),
      calls_(std::make_unique<CallCheck>(internal_comm(), setup.debug)),
      reducer_(std::make_unique<OrderedReducer>(internal_comm(), setup.count_limit)) {}

Communicator::~Communicator() = default;

bool Communicator::debug() const noexcept { return calls_->debug(); }

void Communicator::finalize() {
  if (!comm_) return;
  calls_->collective("finalize", nothing, nothing);
  do_finalize();
  stage_.reset();
  request_stages_.reset();
  reducer_.reset();
  internal_comm_.reset();
  comm_.reset();
  calls_->close();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key) const {
  calls_->collective("split", nothing, nothing);
  Mpi part = Mpi::split(internal_comm(), color, key);
  if (!part) return nullptr;
  Topology topology = find_topology(part.get());
  return make_({name_, std::move(part), std::move(topology), device_, count_limit_, calls_->debug(),
                allreduce_grad_dtype_, make_});
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

HostStages* Communicator::stages_for_request(const ConstBufferView& buffer) {
  if (!lies_on_device(buffer) || mpi_takes_device_buffers_) {
    static_cast<void>(stage_for_mpi(buffer));  // which waits for the buffer's stream
    return nullptr;
  }
  if (!request_stages_) request_stages_ = std::make_shared<HostStages>(device_.index);
  return request_stages_.get();
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
  const bool is_root = rank() == root;
  const ConstBufferView send = is_root ? buffer : BufferView();
  const BufferView recv = is_root ? BufferView() : buffer;
  on_host(stage_for_mpi(buffer), send, recv, [&](ConstBufferView in, BufferView out) {
    const MpiCount n(buffer.count, buffer.dtype, count_limit_);
    void* const data = is_root ? const_cast<void*>(in.data) : out.data;
    mpi_check(MPI_Bcast(data, n.count(), n.type(), root, internal_comm()), "bcast", buffer.bytes());
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
                         internal_comm()),
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
                            internal_comm()),
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
  calls_->collective("alltoall", checks, [&] { return described(send) + memory_of("recv", recv); });
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.alltoall(send, recv); })) return;
  const bool in_place = is_in_place(recv, send, 0);
  on_host(in_place ? stage_after(send, recv) : stage_for_mpi(send, recv), send, recv,
          [&](ConstBufferView in, BufferView out) {
            // A copy, as MPI_IN_PLACE would have to be every rank's choice. What was staged is one already.
            std::vector<std::byte> copy;
            if (in_place && in.data == out.data) {
              copy.assign(static_cast<const std::byte*>(in.data), static_cast<const std::byte*>(in.data) + in.bytes());
              in.data = copy.data();
            }
            const MpiCount n(in.count / ranks, in.dtype, count_limit_);
            mpi_check(MPI_Alltoall(in.data, n.count(), n.type(), out.data, n.count(), n.type(), internal_comm()),
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
                          internal_comm()),
              "scatter", out.bytes());
  });
}

void Communicator::allreduce(BufferView buffer, ReduceOp op) {
  const auto checks = [&] {
    check_buffer("allreduce", "buffer", buffer, device_);
    check_reducible("allreduce", buffer, op);
  };
  calls_->collective("allreduce", checks, [&] { return described(buffer) + by(op); });
  if (on_device({buffer}, [&](DeviceCollectives& device) { device.allreduce(buffer, op); })) return;
  on_host(stage_after(buffer), buffer, [&](BufferView whole) { do_allreduce(whole, reduction_of(whole.dtype, op)); });
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
  calls_->collective("reduce", checks, [&] { return described(send) + by(op) + from_root(root); });
  if (rank() != root) recv = {};
  // By `send` alone, as the other ranks have no recv.
  if (on_device({send}, [&](DeviceCollectives& device) { device.reduce(send, recv, op, root); })) return;
  on_host(stage_after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    reducer_->reduce(in.data, out.data, in.count, reduction_of(in.dtype, op), root);
  });
}

void Communicator::reduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  const auto checks = [&] {
    check_buffer("reduce_scatter", "send", send, device_);
    check_buffer("reduce_scatter", "recv", recv, device_);
    check_same_dtype("reduce_scatter", send, recv);
    check_parts("reduce_scatter", "send", send, "recv", recv, size());
    check_in_place("reduce_scatter", send, recv, rank());
    check_reducible("reduce_scatter", recv, op);
  };
  calls_->collective("reduce_scatter", checks, [&] { return described(recv) + by(op) + memory_of("send", send); });
  if (on_device({send, recv}, [&](DeviceCollectives& device) { device.reduce_scatter(send, recv, op); })) return;
  on_host(stage_after(send, recv), send, recv, [&](ConstBufferView in, BufferView out) {
    reducer_->reduce_scatter(in.data, out.data, out.count, reduction_of(out.dtype, op));
  });
}

void Communicator::barrier() {
  calls_->collective("barrier", nothing, nothing);
  mpi_check(MPI_Barrier(internal_comm()), "barrier");
}

Reduction Communicator::reduction_of(DType dtype, ReduceOp op) const {
  if (op != ReduceOp::kAverage) return {dtype, op};
  return {dtype, ReduceOp::kSum, 1.0 / size()};
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

std::uint64_t collective_calls() noexcept { return CallCheck::calls_of_thread(); }

}  // namespace mn
