#include <mn/comm/host_backends.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/node/node_parts.hpp>
#include <mn/comm/node/node_reducer.hpp>
#include <mn/comm/node/shared_reducer.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr HostBackend kHostBackends[] = {
    {.name = "naive", .exchange = HostExchange::kRanks, .packs = false},
    {.name = "flat", .exchange = HostExchange::kRanks},
    {.name = "hierarchical", .exchange = HostExchange::kLeaders},
    {.name = "two_dimensional", .exchange = HostExchange::kSlices},
    {.name = "single_node", .exchange = HostExchange::kSlices, .one_node = true},
    {.name = "dummy", .exchange = HostExchange::kNone},
};

constexpr HostBackend kFlat = kHostBackends[1];

}  // namespace

std::span<const HostBackend> host_backends() noexcept { return kHostBackends; }

void require_single_node(const Topology& topology, std::string_view instead) {
  if (topology.inter_size == 1) return;
  throw UsageError("communicator single_node: these " + std::to_string(topology.size) + " ranks are on " +
                   std::to_string(topology.inter_size) + " nodes; take " + std::string(instead) +
                   ", or start all ranks on one node");
}

std::shared_ptr<Communicator> make_host_backend(CommunicatorSetup setup, const HostBackend& backend) {
  if (backend.one_node) require_single_node(setup.topology, "two_dimensional or hierarchical");
  NodeComms comms = std::move(setup.node_comms);
  return std::make_shared<HostCommunicator>(std::move(setup), backend, std::move(comms));
}

HostCommunicator::HostCommunicator(CommunicatorSetup setup) : HostCommunicator(std::move(setup), kFlat, {}) {}

HostCommunicator::HostCommunicator(CommunicatorSetup setup, const HostBackend& backend, NodeComms comms)
    : Communicator(std::move(setup)), exchange_(backend.exchange), packs_(backend.packs) {
  if (exchange_ != HostExchange::kLeaders && exchange_ != HostExchange::kSlices) return;
  const BetweenNodes between = exchange_ == HostExchange::kLeaders ? BetweenNodes::kLeaders : BetweenNodes::kSlices;
  if (!comms.node) {
    comms = {Mpi::split(internal_comm(), topology().inter_rank, topology().rank),
             SliceExchange::split_peers(internal_comm(), topology(), between)};
    if (mpi_takes_threads()) {
      background_ = {Mpi::duplicate(comms.node.get()), comms.peers ? Mpi::duplicate(comms.peers.get()) : Mpi()};
    }
  }
  node_ = std::make_unique<NodeReducer>(internal_comm(), topology(), between, std::move(comms));
  if (inter_size() == 1 && node_->has_memory()) {
    match_by([node = node_.get()](const CallSignature& call) { node->compare(call); });
  }
}

HostCommunicator::~HostCommunicator() = default;

void HostCommunicator::do_prepare_background(CommunicatorSetup& background) {
  background.node_comms = std::move(background_);
}

void HostCommunicator::do_finalize() {
  node_.reset();
  background_ = {};
}

void HostCommunicator::do_allreduce(BufferView buffer, const Reduction& reduction) {
  if (!node_) return reducer().allreduce(buffer.data, buffer.count, reduction);
  node_->allreduce(buffer.data, buffer.count, reduction);
}

/// True if parts of this size go through shared memory.
bool HostCommunicator::exchanges_in_memory(const ConstBufferView& part) const {
  constexpr std::size_t kLeastBytes = 2048;  // messages of less are as quick
  return node_ && inter_size() == 1 && size() > 1 && part.bytes() >= kLeastBytes;
}

bool HostCommunicator::do_allgather(ConstBufferView send, BufferView recv) {
  return exchanges_in_memory(send) &&
         node_->allgather(
             {static_cast<const std::byte*>(send.data), static_cast<std::byte*>(recv.data), send.count, {send.dtype}});
}

bool HostCommunicator::do_reduce_scatter(ConstBufferView send, BufferView recv, const Reduction& reduction) {
  return exchanges_in_memory(recv) &&
         node_->reduce_scatter(
             {static_cast<const std::byte*>(send.data), static_cast<std::byte*>(recv.data), recv.count, reduction});
}

void HostCommunicator::do_sum_gradients(std::span<const BufferView> gradients, double scale) {
  const auto reduce = [&](BufferView whole) {
    if (exchange_ == HostExchange::kNone) return;
    do_allreduce(whole, {whole.dtype, ReduceOp::kSum, scale});
  };
  if (packs_) return packer_.apply(gradients, reduce);
  for (const BufferView& gradient : gradients) reduce(gradient);
}

std::shared_ptr<std::byte> HostCommunicator::do_allocate(std::size_t bytes) {
  return node_ ? node_->allocate(bytes) : nullptr;
}

std::unique_ptr<SharedReducer> HostCommunicator::do_share(std::span<const BufferView> buffers) {
  if (!node_ || inter_size() > 1 || size() == 1 || buffers.empty()) return nullptr;
  auto* const own = static_cast<std::byte*>(buffers.front().data);
  const auto all = node_->addresses(own);
  if (all.empty()) return nullptr;
  const auto memory = do_allocate(sizeof(SharedReducer::Control));
  if (!memory) return nullptr;
  std::vector<std::ptrdiff_t> offsets;
  std::vector<SharedReducer::Control*> controls;
  for (std::byte* each : all) offsets.push_back(each - own);
  for (std::byte* each : node_->addresses(memory.get())) {
    controls.push_back(reinterpret_cast<SharedReducer::Control*>(each));
  }
  return std::make_unique<SharedReducer>(buffers, std::move(offsets), std::move(controls), rank(), node_->may_spin(),
                                         memory);
}

}  // namespace mn
