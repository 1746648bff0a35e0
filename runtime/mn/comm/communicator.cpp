#include <mn/comm/communicator.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/call_host_copies.hpp>
#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/calls/recorded_collectives.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/node/shared_reducer.hpp>
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

ConstBufferView of_bytes(std::size_t bytes) { return {nullptr, bytes, DType::kUInt8}; }

}  // namespace

Communicator::Communicator(CommunicatorSetup setup)
    : PlacedRank(std::move(setup.topology)),
      name_(std::move(setup.name)),
      comm_(setup.in_background ? Mpi() : std::move(setup.comm)),
      // A background thread never calls send() or recv(), so its communicator needs no second MPI communicator.
      internal_comm_(setup.in_background ? std::move(setup.comm) : Mpi::duplicate(comm_.get())),
      background_comm_(setup.in_background || !mpi_takes_threads() ? Mpi() : Mpi::duplicate(comm_.get())),
      device_(setup.device),
      allreduce_grad_dtype_(setup.allreduce_grad_dtype),
      calls_(std::make_shared<CallCheck>(internal_comm(), CallCheck::Modes{setup.debug, setup.timeout},
                                         std::move(setup.comparisons))),
      reducer_(std::make_unique<MessageReducer>(internal_comm())),
      host_copies_(std::make_unique<CallHostCopies>(device_.index)) {}

Communicator::~Communicator() {
  // A Request may outlive this object. Without a time-out, its wait() needs no MPI communicator.
  calls_->timeouts().set_timeout(std::chrono::milliseconds(0));
  calls_->close();
}

void Communicator::match_by(std::function<void(const CallSignature&)> compare) { calls_->match_by(std::move(compare)); }

DeviceCollectives* Communicator::device_collectives() {
  DeviceCollectives* const device = do_device_collectives();
  if (device == nullptr) return nullptr;
  if (!recorded_) recorded_ = recorded(*device, calls_);
  return recorded_.get();
}

bool Communicator::debug() const noexcept { return calls_->debug(); }

void Communicator::finalize() {
  if (!internal_comm_) return;
  static_cast<void>(has_given_up());  // if a different rank has given up, collective() below throws
  {
    const auto call = calls_->collective("finalize");
    background_.reset();
    recorded_.reset();
    do_finalize();
  }
  host_copies_.reset();
  reducer_.reset();
  // MPI_Comm_free is collective, so all ranks use this order.
  background_comm_.reset();
  internal_comm_.reset();
  comm_.reset();
  calls_->close();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key, const NcclLimits& limits) const {
  const auto call = calls_->collective("split");
  Mpi part = Mpi::split(internal_comm(), color, key);
  std::shared_ptr<Nccl> nccl = do_split(part ? color : -1, part ? part.rank() : 0, limits);
  if (!part) return nullptr;
  Topology topology = find_topology(part.get());
  CommunicatorSetup setup{name_,     std::move(part), std::move(topology),   device_,        calls_->debug(),
                          timeout(), false,           allreduce_grad_dtype_, std::move(nccl)};
  if (setup.nccl && setup.comm.size() == size()) setup.comparisons = calls_->share_comparisons();
  return make_backend(std::move(setup));
}

void Communicator::set_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() < 0) throw ArgumentError("set_timeout: the time-out must be above 0, or 0 for none");
  calls_->timeouts().set_timeout(timeout);
}

std::chrono::milliseconds Communicator::timeout() const noexcept { return calls_->timeouts().timeout(); }

bool Communicator::has_given_up() const noexcept { return calls_->timeouts().has_failed(); }

DeviceCollectives* Communicator::do_device_collectives() noexcept { return nullptr; }

std::shared_ptr<Nccl> Communicator::do_split(int /*color*/, int /*key*/, const NcclLimits& /*limits*/) const {
  return nullptr;
}

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) {
  const auto call = calls_->collective("allocate", of_bytes(bytes), Nothing(),
                                       [&] { return " of " + std::to_string(bytes) + " bytes"; });
  // do_allocate() does not compare: only the ranks of one node meet there.
  calls_->match("allocate", of_bytes(bytes));
  // Within a node, all ranks get shared memory or none.
  if (auto memory = do_allocate(bytes)) return memory;
  return device_.type == DeviceType::kCuda ? zeroed_pinned(bytes, device_.index) : zeroed(bytes);
}

std::unique_ptr<SharedReducer> Communicator::share(std::span<const BufferView> buffers) {
  const auto details = [&] {
    std::string text = " of " + std::to_string(buffers.size()) + " buffers";
    for (const BufferView& each : buffers) text += "\nbuffer" + described(each);
    return text;
  };
  const auto call = calls_->collective("share", {}, Nothing(), details);
  calls_->match("share", counted(buffers), static_cast<int>(buffers.size()));
  auto reducer = do_share(buffers);
  if (reducer) reducer->record_in(calls_);
  return reducer;
}

CallTimeout::CallTimeout(Communicator& comm, std::chrono::milliseconds timeout) : comm_(comm), before_(comm.timeout()) {
  comm.set_timeout(timeout);
}

CallTimeout::~CallTimeout() { comm_.set_timeout(before_); }

}  // namespace mn
