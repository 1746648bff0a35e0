#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <mn/comm/call_check.hpp>
#include <mn/comm/call_limits.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/cuda.hpp>
#include <mn/comm/host_stage.hpp>
#include <mn/comm/ordered_reducer.hpp>
#include <mn/comm/shared_reducer.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

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

/// For the record of a call without elements.
ConstBufferView of_bytes(std::size_t bytes) { return {nullptr, bytes, DType::kUInt8}; }

}  // namespace

Communicator::Communicator(CommunicatorSetup setup)
    : name_(std::move(setup.name)),
      comm_(std::move(setup.comm)),
      internal_comm_(Mpi::duplicate(comm_.get())),
      background_comm_(setup.in_background || !mpi_takes_threads() ? Mpi() : Mpi::duplicate(comm_.get())),
      topology_(std::move(setup.topology)),
      device_(setup.device),
      count_limit_(setup.count_limit),
      allreduce_grad_dtype_(setup.allreduce_grad_dtype),
      make_(setup.make),
      mpi_takes_device_buffers_(mpi_is_cuda_aware()),
      calls_(std::make_shared<CallCheck>(internal_comm(), CallCheck::Modes{setup.debug, setup.timeout})),
      reducer_(std::make_unique<OrderedReducer>(internal_comm(), setup.count_limit)) {}

Communicator::~Communicator() {
  calls_->limits().set_timeout(std::chrono::milliseconds(0));  // requests may outlive MPI's communicator
}

bool Communicator::debug() const noexcept { return calls_->debug(); }

void Communicator::finalize() {
  if (!comm_) return;
  {
    const auto call = calls_->collective("finalize");
    background_.reset();
    do_finalize();
  }
  stage_.reset();
  request_stages_.reset();
  reducer_.reset();
  background_comm_.reset();
  internal_comm_.reset();
  comm_.reset();
  calls_->close();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key) const {
  const auto call = calls_->collective("split");
  Mpi part = Mpi::split(internal_comm(), color, key);
  if (!part) return nullptr;
  Topology topology = find_topology(part.get());
  return make_({name_, std::move(part), std::move(topology), device_, count_limit_, calls_->debug(), timeout(), false,
                allreduce_grad_dtype_, make_});
}

void Communicator::set_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() < 0) throw ArgumentError("set_timeout: the time-out must be above 0, or 0 for none");
  calls_->limits().set_timeout(timeout);
}

std::chrono::milliseconds Communicator::timeout() const noexcept { return calls_->limits().timeout(); }

bool Communicator::has_given_up() const noexcept { return calls_->limits().failed(); }

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
  // A call with a time-out is one of MPI's nonblocking collectives, which Open MPI does not offer for device buffers.
  if (stage == nullptr || !mpi_takes_device_buffers_ || limited_call() != nullptr) return stage;
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

Reduction Communicator::reduction_of(DType dtype, ReduceOp op) const {
  if (op != ReduceOp::kAverage) return {dtype, op};
  return {dtype, ReduceOp::kSum, 1.0 / size()};
}

void Communicator::do_allreduce(BufferView buffer, const Reduction& reduction) {
  reducer_->allreduce(buffer.data, buffer.count, reduction);
}

void Communicator::do_finalize() {}

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) {
  const auto call = calls_->collective("allocate", of_bytes(bytes), nothing,
                                       [&] { return " of " + std::to_string(bytes) + " bytes"; });
  if (auto memory = do_allocate(bytes)) return memory;
  return device_.type == DeviceType::kCuda ? zeroed_pinned(bytes, device_.index) : zeroed(bytes);
}

std::unique_ptr<SharedReducer> Communicator::share(std::span<const BufferView> buffers) {
  const auto call =
      calls_->collective("share", {}, nothing, [&] { return " of " + std::to_string(buffers.size()) + " buffers"; });
  auto reducer = do_share(buffers);
  if (reducer) reducer->record_in(calls_);
  return reducer;
}

std::shared_ptr<std::byte> Communicator::do_allocate(std::size_t /*bytes*/) { return nullptr; }

std::unique_ptr<SharedReducer> Communicator::do_share(std::span<const BufferView> /*buffers*/) { return nullptr; }

}  // namespace mn
