#include <mn/comm/node/node_reducer.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <mn/comm/node/node_parts.hpp>
#include <mn/comm/node/numa_domains.hpp>
#include <mn/comm/node/reduce_pieces.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

/// Up to this size, every rank reduces the whole buffer by itself, with one barrier instead of two.
constexpr std::size_t kSmallBytes = 8 * 1024;
constexpr std::size_t kSlotBytes = kSmallBytes + 64;  // a slot begins with a cache line for the CallSignature
static_assert(sizeof(CallSignature) <= 64);
/// Size of the pieces of a private buffer on one node: they stay in the cache.
constexpr std::size_t kNodePieceBytes = 1024 * 1024;
/// Largest scratch memory. With several nodes, a larger piece moves through it in several rounds.
constexpr std::size_t kSharedScratchBytes = 4 * 1024 * 1024;
/// With less room for scratch memory, messages are quicker.
constexpr std::size_t kMinScratchBytes = 64 * 1024;

double power_above_ranks(const Topology& topology) {
  std::size_t most = 1;
  for (int node = 0; node < topology.inter_size; ++node) most = std::max(most, topology.ranks_of(node).size());
  return static_cast<double>(std::bit_ceil(most));
}

}  // namespace

/// The blocks of shared memory that this rank holds. Any thread may release a block at any time.
class NodeReducer::Allocations {
 public:
  /// All ranks of the node call add() in the same order, so a block has the same number on all ranks.
  std::int64_t add(const SharedMemory& memory) {
    const std::lock_guard lock(mutex_);
    alive_[next_] = &memory;
    return next_++;
  }
  void remove(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    alive_.erase(number);
  }
  /// Returns the block whose segment of rank `rank` contains `data`, and the data's location in the block. If no block
  /// contains `data`, the location is kPrivate.
  [[nodiscard]] std::pair<Location, const SharedMemory*> find(const std::byte* data, int rank) {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, memory] : alive_) {
      const std::byte* segment = memory->segment(rank);
      if (data < segment || data >= segment + memory->bytes()) continue;
      return {{number, static_cast<std::uint64_t>(data - segment)}, memory};
    }
    return {{kPrivate, 0}, nullptr};
  }

 private:
  std::mutex mutex_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, const SharedMemory*> alive_;
};

/// A block of shared memory made by allocate(). It may outlive the reducer.
struct NodeReducer::Allocation {
  Allocation(MPI_Comm node, std::size_t bytes, std::shared_ptr<Allocations> all)
      : memory(node, bytes), others(std::move(all)), number(others->add(memory)) {}
  ~Allocation() { others->remove(number); }

  SharedMemory memory;
  std::shared_ptr<Allocations> others;
  std::int64_t number;
};

NodeReducer::NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, NodeComms comms)
    : node_(std::move(comms.node)),
      rank_(topology.intra_rank),
      ranks_(topology.intra_size),
      many_nodes_(topology.inter_size > 1),
      divisor_(power_above_ranks(topology)),
      exchange_(comm, topology, between, std::move(comms.peers)),
      domains_(find_domain_borders(node_.get())),
      allocations_(std::make_shared<Allocations>()) {
  try {
    make_segments();
  } catch (const NoSharedMemory& error) {
    report_shortage(error);
  }
}

void NodeReducer::make_segments() {
  segments_.emplace(node_.get(), sizeof(Control) + 2 * kSlotBytes);
  std::vector<SharedCounter*> arrivals;
  for (int r = 0; r < ranks_; ++r) {
    arrivals.push_back(&control(r).arrivals);
    for (std::size_t turn : {0, 1}) small_inputs_[turn].push_back(small_slot(r, turn));
  }
  barrier_ = std::make_unique<NodeBarrier>(arrivals, rank_, may_spin_);
}

NodeReducer::Control& NodeReducer::control(int rank) const {
  return *reinterpret_cast<Control*>(segments_->segment(rank));
}

std::byte* NodeReducer::slot(int rank, std::size_t turn) const {
  return segments_->segment(rank) + sizeof(Control) + turn * kSlotBytes;
}

void NodeReducer::announce(const CallSignature& call) {
  small_turn_ ^= 1;  // invariant 4: the old slot may still be read
  const auto number = static_cast<std::uint16_t>(call_.shape.call + 1);
  call_ = call;
  call_.shape.call = number;
  std::memcpy(slot(rank_, small_turn_), &call_, sizeof call_);
}

void NodeReducer::require_same_calls() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    CallSignature theirs;
    std::memcpy(&theirs, slot(rank, small_turn_), sizeof theirs);
    require_same(node_.get(), rank, theirs, call_);
  }
}

void NodeReducer::compare(const CallSignature& call) {
  announce(call);
  barrier_->arrive_and_wait();
  require_same_calls();
}

void NodeReducer::report_shortage(const NoSharedMemory& error) const {
  static std::once_flag said;
  if (rank_ > 0) return;
  std::call_once(said, [&] {
    log_warning(std::string(error.what()) +
                ": reductions within this node need more copies, or messages, and are slower; give /dev/shm more room "
                "(docker run --shm-size=1g)");
  });
}

bool NodeReducer::reserve_scratch(std::size_t bytes) {
  const std::size_t least = std::max(
      kMinScratchBytes, static_cast<std::size_t>(exchange_.slices()) * SliceExchange::kLineElements * sizeof(double));
  const std::size_t had = scratch_ ? scratch_->bytes() : 0;
  std::size_t wanted = std::max(std::bit_ceil(bytes), least);
  // All ranks decide alike: `bytes` is equal, and NoSharedMemory is thrown on all ranks or on none.
  if (had >= wanted || shm_is_short_) return had > 0;
  scratch_.reset();
  for (; wanted >= least; wanted /= 2) {
    // The old memory is released first: /dev/shm may lack room for both.
    call_mpi(MPI_Barrier, MPI_Ibarrier, "releasing shared scratch memory", 0, node_.get());
    try {
      scratch_.emplace(node_.get(), wanted);
      return true;
    } catch (const NoSharedMemory& error) {
      shm_is_short_ = true;
      report_shortage(error);
    }
  }
  return false;
}

Reduction NodeReducer::within(const Reduction& reduction) const {
  if (!many_nodes_) return reduction;
  const bool may_overflow = reduction.dtype == DType::kFloat16 && reduction.op == ReduceOp::kSum;
  return {reduction.dtype, reduction.op, may_overflow ? 1 / divisor_ : 1};  // invariant 1: avoids overflow
}

Reduction NodeReducer::between(const Reduction& reduction) const {
  return {reduction.dtype, reduction.op, reduction.scale / within(reduction).scale};
}

void NodeReducer::allreduce(void* data, std::size_t count, const Reduction& reduction) {
  if (count == 0) return;
  auto* bytes = static_cast<std::byte*>(data);
  if (segments_) announce({"allreduce", {count, reduction}});
  if (count * size_of(reduction.dtype) <= kSmallBytes) {
    return segments_ ? reduce_small(bytes, count, reduction) : reduce_small_by_messages(bytes, count, reduction);
  }
  auto buffers = shared_buffers(bytes);
  if (segments_) require_same_calls();  // invariant 7: after the barrier in shared_buffers()
  if (!buffers.empty()) return reduce_shared(std::move(buffers), count, reduction);
  reduce_copied(bytes, count, reduction);
}

void NodeReducer::reduce_small(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  std::memcpy(small_slot(rank_, small_turn_), data, bytes);
  barrier_->arrive_and_wait();
  require_same_calls();
  const auto& inputs = small_inputs_[small_turn_];
  void* out = many_nodes_ ? small_slot(0, small_turn_) : data;
  if (!many_nodes_ || rank_ == 0) reduce_in_order({&out, 1}, inputs, count, within(reduction));
  if (!many_nodes_) return;
  if (rank_ == 0) exchange_.between_nodes(out, count, between(reduction));
  barrier_->arrive_and_wait();  // the first rank's slot now holds the result
  std::memcpy(data, out, bytes);
}

void NodeReducer::reduce_small_by_messages(std::byte* data, std::size_t count, const Reduction& reduction) {
  messages_.allreduce(data, count, within(reduction));
  if (!many_nodes_) return;
  if (rank_ == 0) exchange_.between_nodes(data, count, between(reduction));
  ranks().bcast(data, count, reduction.dtype, 0);
}

NodeRanks NodeReducer::ranks() {
  return {node_.get(), rank_,     ranks_,         many_nodes_,
          exchange_,   messages_, barrier_.get(), scratch_ ? &*scratch_ : nullptr};
}

void NodeReducer::reduce_shared(std::vector<std::byte*> buffers, std::size_t count, const Reduction& reduction) {
  const auto rank = static_cast<std::size_t>(rank_);
  if (!many_nodes_ && domains_.size() > 2 && fits_domains(reduction)) {
    return reduce_by_domains(buffers, domains_, rank, count, reduction, *barrier_);
  }
  std::byte* data = buffers[rank];
  SharedPieces pieces(ranks(), std::move(buffers), within(reduction));
  // Invariant 6: another node may use scratch memory, and must cut the buffer into equal pieces.
  exchange_.allreduce(data, count, many_nodes_ ? piece_elements(count, reduction) : count, between(reduction), pieces);
  barrier_->arrive_and_wait();  // all ranks of the node have now written to this rank's buffer
}

void NodeReducer::reduce_copied(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t most = piece_elements(count, reduction);
  if (segments_ && reserve_scratch(std::min(most * size_of(reduction.dtype), kSharedScratchBytes))) {
    CopiedPieces pieces(ranks(), data, most, within(reduction));
    return exchange_.allreduce(data, count, most, between(reduction), pieces);
  }
  MessagePieces pieces(ranks(), data, most, within(reduction));
  exchange_.allreduce(data, count, most, between(reduction), pieces);
}

std::size_t NodeReducer::piece_elements(std::size_t count, const Reduction& reduction) const {
  const std::size_t element_bytes = size_of(reduction.dtype);
  return many_nodes_ ? exchange_.piece_elements(count, element_bytes)
                     : std::min(count, kNodePieceBytes / element_bytes);
}

std::vector<std::byte*> NodeReducer::shared_buffers(const std::byte* data) {
  if (!segments_) return {};
  // Invariant 5: a rank looks up only its own buffer.
  const auto [own, memory] = allocations_->find(data, rank_);
  control(rank_).location = own;
  barrier_->arrive_and_wait();
  std::vector<std::byte*> buffers;
  for (int r = 0; r < ranks_; ++r) {
    const Location& location = control(r).location;
    if (location.allocation == kPrivate || location.allocation != own.allocation) return {};
    buffers.push_back(memory->segment(r) + location.offset);
  }
  return buffers;
}

/// Calls shared() if all ranks' `send` lie in shared memory, else copied() with scratch memory of `scratch_bytes` or
/// less.
template <class Shared, class Copied>
bool NodeReducer::exchange(const NodeParts& parts, std::size_t scratch_bytes, Shared shared, Copied copied) {
  const auto sent = shared_buffers(parts.send);
  if (!sent.empty()) {
    shared(parts, ranks(), sent);
    return true;
  }
  if (!segments_ || !reserve_scratch(std::min(scratch_bytes, kNodePieceBytes))) return false;
  copied(parts, ranks());
  return true;
}

bool NodeReducer::allgather(const NodeParts& parts) {
  return exchange(parts, 2 * parts.bytes(), allgather_shared, allgather_copied);
}

bool NodeReducer::reduce_scatter(const NodeParts& parts) {
  return exchange(parts, 2 * parts.bytes() * static_cast<std::size_t>(ranks_), reduce_scatter_shared,
                  reduce_scatter_copied);
}

std::vector<std::byte*> NodeReducer::addresses(const std::byte* data) {
  auto buffers = shared_buffers(data);
  if (barrier_) barrier_->arrive_and_wait();
  return buffers;
}

std::shared_ptr<std::byte> NodeReducer::allocate(std::size_t bytes) {
  try {
    const auto allocation = std::make_shared<Allocation>(node_.get(), bytes, allocations_);
    return {allocation, allocation->memory.segment(rank_)};
  } catch (const NoSharedMemory& error) {
    report_shortage(error);
    return nullptr;
  }
}

}  // namespace mn
