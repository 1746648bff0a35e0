#include <algorithm>
#include <cstring>
#include <map>

#include <mn/comm/node_reducer.hpp>

namespace mn {
namespace {

/// Up to this many bytes every rank reads all buffers and reduces them itself: one barrier instead of two.
constexpr std::size_t kSmallBytes = 8 * 1024;
/// Private buffers go through staging memory in pieces that stay in the cache; between nodes, in such as fill a
/// network.
constexpr std::size_t kPieceBytes = 1024 * 1024;
constexpr std::size_t kNetworkPieceBytes = 4 * 1024 * 1024;
constexpr std::size_t kLineElements = 64;  ///< slices begin on cache lines, whatever the type

}  // namespace

struct NodeReducer::Allocations {
  std::int64_t next = 0;
  std::map<std::int64_t, const SharedWindow*> alive;
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
  window_ = std::make_unique<SharedWindow>(node_.get(), sizeof(Control) + 2 * kSmallBytes + piece_bytes_);
  std::vector<SharedCounter*> arrivals;
  for (int r = 0; r < ranks_; ++r) {
    arrivals.push_back(&control(r).arrivals);
    for (std::size_t turn : {0, 1}) small_inputs_[turn].push_back(small_place(r, turn));
  }
  barrier_ = std::make_unique<NodeBarrier>(std::move(arrivals), rank_);
}

NodeReducer::Control& NodeReducer::control(int rank) const {
  return *reinterpret_cast<Control*>(window_->segment(rank));
}

std::byte* NodeReducer::small_place(int rank, std::size_t turn) const {
  return window_->segment(rank) + sizeof(Control) + turn * kSmallBytes;
}

std::byte* NodeReducer::staging(int rank) const { return window_->segment(rank) + sizeof(Control) + 2 * kSmallBytes; }

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
  // Two places in turn: a rank that is ahead writes the next message while others still read this one.
  small_turn_ ^= 1;
  std::memcpy(small_place(rank_, small_turn_), data, bytes);
  barrier_->arrive_and_wait();
  const auto& inputs = small_inputs_[small_turn_];
  if (!many_nodes_) {
    void* out = data;
    return reduce_in_order({&out, 1}, inputs, count, reduction);
  }
  if (rank_ == 0) reduce_slice({small_place(0, small_turn_), data}, inputs, count, reduction);
  barrier_->arrive_and_wait();
  if (rank_ != 0) std::memcpy(data, small_place(0, small_turn_), bytes);
}

void NodeReducer::reduce_shared(const std::vector<std::byte*>& buffers, std::size_t count, const Reduction& reduction) {
  const std::size_t element_bytes = size_of(reduction.dtype);
  // Another node may have to take its pieces through staging memory: what goes between nodes must be cut alike.
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
  Place& own = control(rank_).place;
  own = {kPrivate, 0};
  for (const auto& [number, window] : allocations_->alive) {
    const std::byte* segment = window->segment(rank_);
    if (data < segment || data >= segment + window->bytes()) continue;
    own = {number, static_cast<std::uint64_t>(data - segment)};
  }
  barrier_->arrive_and_wait();
  std::vector<std::byte*> buffers;
  for (int r = 0; r < ranks_; ++r) {
    const Place& place = control(r).place;
    if (place.window == kPrivate) return {};
    buffers.push_back(allocations_->alive.at(place.window)->segment(r) + place.offset);
  }
  return buffers;
}

std::vector<std::byte*> NodeReducer::addresses(const std::byte* data) {
  auto buffers = shared_buffers(data);
  barrier_->arrive_and_wait();
  return buffers;
}

std::shared_ptr<std::byte> NodeReducer::allocate(std::size_t bytes) {
  if (!shared_memory_has_room(node_.get(), bytes)) return nullptr;
  auto window = std::make_shared<SharedWindow>(node_.get(), bytes);
  const std::int64_t number = allocations_->next++;
  allocations_->alive[number] = window.get();
  return {window->segment(rank_), [window, number, allocations = allocations_](std::byte* /*memory*/) mutable {
            allocations->alive.erase(number);
            window.reset();
          }};
}

}  // namespace mn
