#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <mn/comm/node_reducer.hpp>

namespace mn {
namespace {

/// Up to this many bytes every rank reads all buffers and reduces them itself: one barrier instead of two.
constexpr std::size_t kSmallBytes = 8 * 1024;
/// Pieces in which private buffers go through staging memory: small enough for the cache or, between nodes, large
/// enough to fill a network.
constexpr std::size_t kPieceBytes = 1024 * 1024;
constexpr std::size_t kNetworkPieceBytes = 4 * 1024 * 1024;
constexpr std::size_t kLineElements = 64;  ///< slices begin on cache lines, whatever the type

}  // namespace

/// The allocations of this rank that are alive, by number. Any thread may release memory at any time.
class NodeReducer::Allocations {
 public:
  /// All ranks of the node add in the same order: an allocation has one number on all of them.
  std::int64_t add(const SharedMemory& memory) {
    const std::lock_guard lock(mutex_);
    alive_[next_] = &memory;
    return next_++;
  }
  void remove(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    alive_.erase(number);
  }
  /// Where `data` lies, and in which memory; kPrivate and null outside all segments of `rank`.
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

/// Memory that is known to the reducer as long as it lives; it may outlive the reducer.
struct NodeReducer::Allocation {
  Allocation(MPI_Comm node, std::size_t bytes, std::shared_ptr<Allocations> all)
      : memory(node, bytes), others(std::move(all)), number(others->add(memory)) {}
  ~Allocation() { others->remove(number); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  SharedMemory memory;
  std::shared_ptr<Allocations> others;
  std::int64_t number;
};

NodeReducer::NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit)
    : node_(Mpi::split(comm, topology.inter_rank, topology.rank)),
      rank_(topology.intra_rank),
      ranks_(topology.intra_size),
      slices_(topology.intra_size),
      many_nodes_(topology.inter_size > 1),
      piece_bytes_(topology.inter_size > 1 ? kNetworkPieceBytes : kPieceBytes),
      allocations_(std::make_shared<Allocations>()) {
  for (int node = 0; node < topology.inter_size; ++node) {
    slices_ = std::min(slices_, static_cast<int>(topology.ranks_of(node).size()));
  }
  if (many_nodes_) {
    if (between == BetweenNodes::kLeaders) slices_ = 1;
    peers_ = Mpi::split(comm, rank_ < slices_ ? rank_ : -1, topology.rank);
    if (peers_) between_nodes_ = std::make_unique<OrderedReducer>(peers_.get(), count_limit);
  }
  segments_.emplace(node_.get(), sizeof(Control) + 2 * kSmallBytes + piece_bytes_);
  std::vector<SharedCounter*> arrivals;
  for (int r = 0; r < ranks_; ++r) {
    arrivals.push_back(&control(r).arrivals);
    for (std::size_t turn : {0, 1}) small_inputs_[turn].push_back(small_slot(r, turn));
  }
  barrier_ = std::make_unique<NodeBarrier>(std::move(arrivals), rank_);
}

NodeReducer::Control& NodeReducer::control(int rank) const {
  return *reinterpret_cast<Control*>(segments_->segment(rank));
}

std::byte* NodeReducer::small_slot(int rank, std::size_t turn) const {
  return segments_->segment(rank) + sizeof(Control) + turn * kSmallBytes;
}

std::byte* NodeReducer::staging(int rank) const { return segments_->segment(rank) + sizeof(Control) + 2 * kSmallBytes; }

NodeReducer::Range NodeReducer::slice_of(int rank, std::size_t most, std::size_t count) const {
  if (rank >= slices_) return {count, 0};
  const auto slices = static_cast<std::size_t>(slices_);
  const std::size_t length = ((most + slices - 1) / slices + kLineElements - 1) / kLineElements * kLineElements;
  const std::size_t first = std::min(static_cast<std::size_t>(rank) * length, count);
  return {first, std::min(length, count - first)};
}

void NodeReducer::allreduce(void* data, std::size_t count, const Reduction& reduction) {
  if (count == 0) return;
  auto* bytes = static_cast<std::byte*>(data);
  if (count * size_of(reduction.dtype) <= kSmallBytes) return reduce_small(bytes, count, reduction);
  const auto buffers = shared_buffers(bytes);
  if (!buffers.empty()) return reduce_shared(buffers, count, reduction);
  reduce_staged(bytes, count, reduction);
}

void NodeReducer::reduce_small(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  small_turn_ ^= 1;
  std::memcpy(small_slot(rank_, small_turn_), data, bytes);
  barrier_->arrive_and_wait();
  const auto& inputs = small_inputs_[small_turn_];
  if (!many_nodes_) {
    void* out = data;
    return reduce_in_order({&out, 1}, inputs, count, reduction);
  }
  if (rank_ == 0) reduce_slice({small_slot(0, small_turn_), data}, inputs, count, reduction);
  barrier_->arrive_and_wait();
  if (rank_ != 0) std::memcpy(data, small_slot(0, small_turn_), bytes);
}

void NodeReducer::reduce_shared(const std::vector<std::byte*>& buffers, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  // Another node may use staging memory: all nodes must cut what goes between them into the same pieces.
  const std::size_t most = many_nodes_ ? std::min(count, piece_bytes_ / element_bytes) : count;
  for (std::size_t done = 0; done < count; done += most) {
    const Range own = slice_of(rank_, most, std::min(most, count - done));
    const std::size_t offset = (done + own.first) * element_bytes;
    std::vector<void*> outputs{buffers[static_cast<std::size_t>(rank_)] + offset};
    std::vector<const void*> inputs;
    for (std::byte* buffer : buffers) {
      inputs.push_back(buffer + offset);
      if (buffer + offset != outputs.front()) outputs.push_back(buffer + offset);
    }
    reduce_slice(outputs, inputs, own.length, reduction);
  }
  barrier_->arrive_and_wait();
}

void NodeReducer::reduce_staged(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  const std::size_t most = std::min(count, piece_bytes_ / element_bytes);
  for (std::size_t done = 0; done < count; done += most) {
    std::byte* piece = data + done * element_bytes;
    const std::size_t length = std::min(most, count - done);
    const auto copy = [&](int slice, std::byte* to, const std::byte* from) {
      const Range range = slice_of(slice, most, length);
      std::memcpy(to + range.first * element_bytes, from + range.first * element_bytes, range.length * element_bytes);
    };
    for (int r = 0; r < slices_; ++r) {
      if (r != rank_) copy(r, staging(rank_), piece);
    }
    barrier_->arrive_and_wait();
    const Range own = slice_of(rank_, most, length);
    const std::size_t offset = own.first * element_bytes;
    std::vector<const void*> inputs;
    for (int r = 0; r < ranks_; ++r) inputs.push_back((r == rank_ ? piece : staging(r)) + offset);
    reduce_slice({piece + offset, staging(rank_) + offset}, inputs, own.length, reduction);
    barrier_->arrive_and_wait();
    for (int r = 0; r < slices_; ++r) {
      if (r != rank_) copy(r, piece, staging(r));
    }
  }
}

void NodeReducer::reduce_slice(const std::vector<void*>& outputs, const std::vector<const void*>& inputs,
                               std::size_t count, const Reduction& reduction) {
  if (count == 0) return;
  if (!many_nodes_) return reduce_in_order(outputs, inputs, count, reduction);
  reduce_in_order({outputs.data(), 1}, inputs, count, {reduction.dtype, reduction.op});
  between_nodes_->allreduce(outputs.front(), count, reduction);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    std::memcpy(outputs[i], outputs.front(), count * size_of(reduction.dtype));
  }
}

std::vector<std::byte*> NodeReducer::shared_buffers(const std::byte* data) {
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

std::vector<std::byte*> NodeReducer::addresses(const std::byte* data) {
  auto buffers = shared_buffers(data);
  barrier_->arrive_and_wait();
  return buffers;
}

std::shared_ptr<std::byte> NodeReducer::allocate(std::size_t bytes) {
  const auto allocation = std::make_shared<Allocation>(node_.get(), bytes, allocations_);
  return {allocation, allocation->memory.segment(rank_)};
}

}  // namespace mn
