#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <mn/comm/node_reducer.hpp>

namespace mn {
namespace {

/// Up to this many bytes every rank reads all buffers and reduces them itself: one barrier instead of two.
constexpr std::size_t kSmallBytes = 8 * 1024;
/// Pieces in which private buffers go through staging memory where there is one node: small enough for the cache.
constexpr std::size_t kNodePieceBytes = 1024 * 1024;

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

/// Buffers that lie where all ranks of the node see them: reduced in place.
class NodeReducer::SharedPieces final : public SliceExchange::Node {
 public:
  SharedPieces(const NodeReducer& owner, std::vector<std::byte*> buffers, const Reduction& reduction)
      : owner_(owner),
        buffers_(std::move(buffers)),
        within_(owner.within(reduction)),
        element_bytes_(size_of(reduction.dtype)) {}

  void reduce(Range /*piece*/, Range own) override {
    std::vector<void*> outputs{at(owner_.rank_, own)};
    std::vector<const void*> inputs;
    for (int r = 0; r < owner_.ranks_; ++r) {
      inputs.push_back(at(r, own));
      if (!owner_.many_nodes_ && r != owner_.rank_) outputs.push_back(at(r, own));
    }
    reduce_in_order(outputs, inputs, own.length, within_);
  }
  void spread(Range /*piece*/, Range own) override {
    for (int r = 0; owner_.many_nodes_ && r < owner_.ranks_; ++r) {
      if (r != owner_.rank_) std::memcpy(at(r, own), at(owner_.rank_, own), own.length * element_bytes_);
    }
  }

 private:
  [[nodiscard]] std::byte* at(int rank, Range range) const {
    return buffers_[static_cast<std::size_t>(rank)] + range.first * element_bytes_;
  }

  const NodeReducer& owner_;
  std::vector<std::byte*> buffers_;
  Reduction within_;
  std::size_t element_bytes_;
};

/// A private buffer, whose pieces go through staging memory.
class NodeReducer::StagedPieces final : public SliceExchange::Node {
 public:
  /// Pieces have at most `most` elements.
  StagedPieces(const NodeReducer& owner, std::byte* data, std::size_t most, const Reduction& reduction)
      : owner_(owner),
        data_(data),
        most_(most),
        within_(owner.within(reduction)),
        element_bytes_(size_of(reduction.dtype)) {}

  void reduce(Range piece, Range own) override {
    for_others([&](int slice) { copy(piece, slice, staging(owner_.rank_), data(piece)); });
    owner_.barrier_->arrive_and_wait();
    const std::size_t offset = (own.first - piece.first) * element_bytes_;
    std::vector<const void*> inputs;
    for (int r = 0; r < owner_.ranks_; ++r) inputs.push_back((r == owner_.rank_ ? data(piece) : staging(r)) + offset);
    std::vector<void*> outputs{data(piece) + offset};
    if (!owner_.many_nodes_) outputs.push_back(staging(owner_.rank_) + offset);
    reduce_in_order(outputs, inputs, own.length, within_);
  }
  void spread(Range piece, Range /*own*/) override {
    if (owner_.many_nodes_) copy(piece, owner_.rank_, staging(owner_.rank_), data(piece));
    owner_.barrier_->arrive_and_wait();
    for_others([&](int slice) { copy(piece, slice, data(piece), staging(slice)); });
  }

 private:
  [[nodiscard]] std::byte* data(Range piece) const { return data_ + piece.first * element_bytes_; }
  [[nodiscard]] std::byte* staging(int rank) const { return owner_.staging(rank); }
  void for_others(const std::function<void(int slice)>& act) const {
    for (int r = 0; r < owner_.exchange_.slices(); ++r) {
      if (r != owner_.rank_) act(r);
    }
  }
  void copy(Range piece, int slice, std::byte* to, const std::byte* from) const {
    const Range range = owner_.exchange_.slice_of(slice, most_, piece.length);
    std::memcpy(to + range.first * element_bytes_, from + range.first * element_bytes_, range.length * element_bytes_);
  }

  const NodeReducer& owner_;
  std::byte* data_;
  std::size_t most_;
  Reduction within_;
  std::size_t element_bytes_;
};

NodeReducer::NodeReducer(MPI_Comm comm, const Topology& topology, BetweenNodes between, std::size_t count_limit)
    : node_(Mpi::split(comm, topology.inter_rank, topology.rank)),
      rank_(topology.intra_rank),
      ranks_(topology.intra_size),
      many_nodes_(topology.inter_size > 1),
      may_spin_(has_cpu_for_each_rank(node_.get())),
      exchange_(comm, topology, between, count_limit, many_nodes_ ? SliceExchange::kPieceBytes : kNodePieceBytes),
      allocations_(std::make_shared<Allocations>()) {
  segments_.emplace(node_.get(), sizeof(Control) + 2 * kSmallBytes + exchange_.piece_bytes());
  std::vector<SharedCounter*> arrivals;
  for (int r = 0; r < ranks_; ++r) {
    arrivals.push_back(&control(r).arrivals);
    for (std::size_t turn : {0, 1}) small_inputs_[turn].push_back(small_slot(r, turn));
  }
  barrier_ = std::make_unique<NodeBarrier>(std::move(arrivals), rank_, may_spin_);
}

NodeReducer::Control& NodeReducer::control(int rank) const {
  return *reinterpret_cast<Control*>(segments_->segment(rank));
}

std::byte* NodeReducer::small_slot(int rank, std::size_t turn) const {
  return segments_->segment(rank) + sizeof(Control) + turn * kSmallBytes;
}

std::byte* NodeReducer::staging(int rank) const { return segments_->segment(rank) + sizeof(Control) + 2 * kSmallBytes; }

Reduction NodeReducer::within(const Reduction& reduction) const {
  return many_nodes_ ? Reduction{reduction.dtype, reduction.op} : reduction;
}

void NodeReducer::allreduce(void* data, std::size_t count, const Reduction& reduction) {
  if (count == 0) return;
  auto* bytes = static_cast<std::byte*>(data);
  if (count * size_of(reduction.dtype) <= kSmallBytes) return reduce_small(bytes, count, reduction);
  auto buffers = shared_buffers(bytes);
  if (!buffers.empty()) return reduce_shared(std::move(buffers), count, reduction);
  reduce_staged(bytes, count, reduction);
}

void NodeReducer::reduce_small(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  small_turn_ ^= 1;
  std::memcpy(small_slot(rank_, small_turn_), data, bytes);
  barrier_->arrive_and_wait();
  const auto& inputs = small_inputs_[small_turn_];
  void* out = many_nodes_ ? small_slot(0, small_turn_) : data;
  if (!many_nodes_ || rank_ == 0) reduce_in_order({&out, 1}, inputs, count, within(reduction));
  if (!many_nodes_) return;
  if (rank_ == 0) exchange_.between_nodes(out, count, reduction);
  barrier_->arrive_and_wait();
  std::memcpy(data, out, bytes);
}

void NodeReducer::reduce_shared(std::vector<std::byte*> buffers, std::size_t count, const Reduction& reduction) {
  std::byte* data = buffers[static_cast<std::size_t>(rank_)];
  SharedPieces pieces(*this, std::move(buffers), reduction);
  // Another node may use staging memory: all nodes must cut what goes between them into the same pieces.
  exchange_.allreduce(data, count, many_nodes_ ? piece_elements(count, reduction) : count, reduction, pieces);
  barrier_->arrive_and_wait();
}

void NodeReducer::reduce_staged(std::byte* data, std::size_t count, const Reduction& reduction) {
  const std::size_t most = piece_elements(count, reduction);
  StagedPieces pieces(*this, data, most, reduction);
  exchange_.allreduce(data, count, most, reduction, pieces);
}

std::size_t NodeReducer::piece_elements(std::size_t count, const Reduction& reduction) const {
  return std::min(count, exchange_.piece_bytes() / size_of(reduction.dtype));
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
