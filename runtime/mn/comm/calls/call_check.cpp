#include <mn/comm/calls/call_check.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>

#include <mn/comm/calls/call_match.hpp>
#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/half.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr char kCommunicator[] = "communicator ";
constexpr char kSameOrder[] = ": all ranks must call communicators with NCCL in the same order";
constexpr char kSeparator = '\0';  // between a rank's error and its call

thread_local std::uint64_t thread_calls = 0;

template <class T>
std::string find_non_finite(const void* data, std::size_t count) {
  const auto* begin = static_cast<const T*>(data);
  const auto* found = std::find_if(begin, begin + count, [](T value) { return !std::isfinite(widen(value)); });
  if (found == begin + count) return {};
  return (std::isnan(widen(*found)) ? "nan" : "inf") + (" at element " + std::to_string(found - begin));
}

std::string elements(const ConstBufferView& buffer) {
  return std::to_string(buffer.count) + " elements of " + std::string(name_of(buffer.dtype));
}

/// Returns the first pair of lines in which the texts `a` and `b` of two calls differ.
std::pair<std::string, std::string> difference(std::string_view a, std::string_view b) {
  auto left = split(a, '\n');
  auto right = split(b, '\n');
  left.resize(std::max(left.size(), right.size()), "nothing more");
  right.resize(left.size(), "nothing more");
  const auto [x, y] = std::ranges::mismatch(left, right);
  return {std::string(*x), std::string(*y)};
}

/// The ranks of a new group agree on the maximum of each value. Only rank 0 knows the name; the others pass -1.
struct AgreedModes {
  std::int64_t debug;
  std::int64_t timeout_ms;
  std::int64_t leader;
  std::int64_t ordinal;
};

std::atomic<int> groups_made{0};  // number of groups with this process as rank 0

}  // namespace

CallCheck::CallCheck(MPI_Comm comm, const Modes& modes, std::shared_ptr<const Mpi> comparisons)
    : comm_(comm), comparisons_(std::move(comparisons)) {
  group_.rank = rank_in(comm);
  group_.size = size_of(comm);
  world_ranks_ = ranks_in(MPI_COMM_WORLD, comm);
  const bool leads = group_.rank == 0;
  AgreedModes agreed{modes.debug ? 1 : 0, modes.timeout.count(), leads ? world_ranks_[0] : -1,
                     leads ? ++groups_made : -1};
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &agreed, 4, MPI_INT64_T, MPI_MAX, comm), "agreeing on a communicator's modes");
  debug_ = agreed.debug != 0;
  const bool is_of_one_world = std::ranges::find(world_ranks_, -1) == world_ranks_.end();
  group_.leader = is_of_one_world ? static_cast<int>(agreed.leader) : -1;
  group_.ordinal = static_cast<int>(agreed.ordinal);
  count_.emplace(group_);
  timeouts_ = std::make_unique<CallTimeouts>(comm, group_, std::chrono::milliseconds(agreed.timeout_ms));
}

std::shared_ptr<const Mpi> CallCheck::share_comparisons() {
  if (debug_ && !comparisons_) comparisons_ = std::make_shared<const Mpi>(Mpi::duplicate(comm_));
  return comparisons_;
}

std::uint64_t CallCheck::calls_of_thread() noexcept { return thread_calls; }

void CallCheck::count_call() noexcept {
  if (!CallsOfAllRanks::any()) ++thread_calls;
}

void CallCheck::require_open(std::string_view operation) const {
  // Only some ranks run this code, and a collective call would wait forever for the others.
  if (ForbiddenCalls::any()) throw ForbiddenCall(std::string(operation) + ": another rank does not make this call");
  if (!open_) throw ArgumentError(std::string(operation) + ": this communicator was finalized; make another one");
  if (const std::string failure = timeouts_->failure(); !failure.empty()) {
    throw CommError(std::string(operation) + ": this communicator can only be destroyed: " + failure);
  }
}

void CallCheck::compare(const ComparedCall& call, const std::string& details, const std::string& rejection) {
  const std::string operation(call.name.operation);
  const std::string number = "debug mode: call " + std::to_string(call.name.number) + ": ";
  std::string text = operation + details;
  log_debug(number + first_line_of(text));
  const MPI_Comm comm = comparisons_ ? comparisons_->get() : comm_;
  if (comparisons_) text = kCommunicator + std::to_string(group_.ordinal) + "\n" + text;  // inv. 3: names itself
  // A time-out cannot end allgather_texts(), but it can end a barrier.
  if (timed_call() != nullptr) call_mpi(MPI_Barrier, MPI_Ibarrier, "comparing calls", 0, comm);
  // Invariant 2: the first message of the call. A rank sends its argument error (or an empty text) and its call.
  const bool begins = rejection.starts_with(call.operation);  // the rejection of an ibcast begins with "bcast: "
  const auto ranks = allgather_texts(
      comm, (begins ? operation + rejection.substr(call.operation.size()) : rejection) + kSeparator + text);
  const auto hosts = [&] { return allgather_texts(comm, host_name()); };  // called on all ranks or on none
  const auto name = [](std::size_t rank, const std::vector<std::string>& at) {
    return "rank " + std::to_string(rank) + " on " + at[rank];
  };
  // A rank that rejects an argument has a different text, so errors are reported before differences.
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::size_t end = ranks[r].find(kSeparator);
    if (end > 0) throw ArgumentError(number + name(r, hosts()) + ": " + ranks[r].substr(0, end), true);
  }
  // Invariant 1: all ranks compare the same texts, and find an equal `r`.
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r] == ranks[0]) continue;
    const auto at = hosts();
    const auto [first, other] = difference(std::string_view(ranks[0]).substr(1), std::string_view(ranks[r]).substr(1));
    throw ArgumentError(number + "the ranks differ in " + operation + ": " + name(0, at) + " has \"" + first + "\", " +
                            name(r, at) + " has \"" + other + "\"" +
                            (first.starts_with(kCommunicator) ? kSameOrder : ""),
                        true);
  }
}

void CallCheck::match(std::string_view operation, const ConstBufferView& what, int root, ReduceOp op) {
  if (debug_ || group_.size == 1) return;  // in debug mode the call was compared before
  give_up_on_mismatch([&] {
    const CallSignature own(operation, CallShape(what.count, {what.dtype, op}), root);
    if (compare_calls_) return compare_calls_(own);
    if (timed_call() == nullptr) return NeighborCheck(comm_, own).finish();
    const KeptForMpi all(std::vector<CallSignature>(static_cast<std::size_t>(group_.size), own));
    call_mpi(MPI_Allgather, MPI_Iallgather, "comparing calls", 0, MPI_IN_PLACE, 0, MPI_BYTE, all->data(),
             static_cast<int>(sizeof own), MPI_BYTE, comm_);
    for (int rank = 0; rank < group_.size; ++rank)
      require_same(comm_, rank, (*all)[static_cast<std::size_t>(rank)], own);
  });
}

void reject(std::string_view operation, const std::string& what) {
  throw ArgumentError(std::string(operation) + ": " + what);
}

void check_rank(std::string_view operation, std::string_view role, int rank, int size) {
  if (rank >= 0 && rank < size) return;
  reject(operation, std::string(role) + " " + std::to_string(rank) +
                        " is out of range: the communicator's ranks are 0 to " + std::to_string(size - 1));
}

void check_peer(std::string_view operation, std::string_view role, int peer, int rank, int size) {
  check_rank(operation, role, peer, size);
  if (peer != rank) return;
  reject(operation, std::string(role) + " " + std::to_string(peer) +
                        " is this rank itself, which can't wait for itself: copy the data instead");
}

void check_reducible(std::string_view operation, const ConstBufferView& buffer, ReduceOp op) {
  if (buffer.dtype == DType::kBool) {
    reject(operation,
           "booleans can't be reduced: convert them to uint8, whose max is their \"or\" and whose min is their "
           "\"and\"");
  }
  if (op == ReduceOp::kAverage && !is_float(buffer.dtype)) {
    reject(operation, "the average of " + std::string(name_of(buffer.dtype)) +
                          " is not defined: convert it to a float type, or divide the sum");
  }
}

void check_same_memory(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv) {
  if (send.count == 0 || lies_on_device(send) == lies_on_device(recv)) return;
  reject(operation, "send lies on " + send.device.str() + ", recv on " + recv.device.str() + ": move one of them");
}

void check_tag(std::string_view operation, int tag, int max_tag) {
  if (tag >= 0 && tag <= max_tag) return;
  reject(operation, "tag " + std::to_string(tag) + " is out of range: use 0 to " + std::to_string(max_tag));
}

void check_buffer(std::string_view operation, std::string_view role, const ConstBufferView& buffer, Device device) {
  if (buffer.data == nullptr && buffer.count > 0) {
    reject(operation, std::string(role) + " has " + elements(buffer) + " but no memory");
  }
  if (buffer.device.type != DeviceType::kCpu && buffer.device != device) {
    reject(operation, std::string(role) + " lies on " + buffer.device.str() + ", but the communicator's device is " +
                          device.str() + ": move the data, or create the communicator with that device");
  }
}

void check_same_dtype(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv) {
  if (send.dtype == recv.dtype) return;
  reject(operation, "send holds " + std::string(name_of(send.dtype)) + ", recv " + std::string(name_of(recv.dtype)));
}

void check_buffers(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv,
                   Device device) {
  check_buffer(operation, "send", send, device);
  check_buffer(operation, "recv", recv, device);
  check_same_dtype(operation, send, recv);
}

void check_parts(std::string_view operation, std::string_view whole_role, const ConstBufferView& whole,
                 std::string_view part_role, const ConstBufferView& part, int parts) {
  if (whole.count == part.count * static_cast<std::size_t>(parts)) return;
  reject(operation, std::string(whole_role) + " has " + elements(whole) + "; with " + std::to_string(parts) +
                        " ranks and " + std::to_string(part.count) + " in " + std::string(part_role) +
                        " it must have " + std::to_string(part.count * static_cast<std::size_t>(parts)));
}

bool is_in_place(const ConstBufferView& whole, const ConstBufferView& part, int own) {
  if (whole.count == 0 || part.count == 0) return false;  // an empty part has no offset
  return part.data == static_cast<const std::byte*>(whole.data) + static_cast<std::size_t>(own) * part.bytes();
}

void check_in_place(std::string_view operation, const ConstBufferView& whole, const ConstBufferView& part, int own) {
  const auto* whole_begin = static_cast<const std::byte*>(whole.data);
  const auto* part_begin = static_cast<const std::byte*>(part.data);
  if (whole.count == 0 || part.count == 0 || is_in_place(whole, part, own)) return;
  const bool apart = part_begin + part.bytes() <= whole_begin || whole_begin + whole.bytes() <= part_begin;
  if (!apart) reject(operation, "send and recv overlap other than at rank " + std::to_string(own) + "'s own part");
}

ConstBufferView counted(std::span<const BufferView> buffers) {
  ConstBufferView all;
  for (const BufferView& each : buffers) all = {nullptr, all.count + each.count, each.dtype};
  return all;
}

std::string described(const ConstBufferView& buffer) {
  return " of " + std::to_string(buffer.count) + " " + std::string(name_of(buffer.dtype)) +
         (lies_on_device(buffer) ? " on a GPU" : "");
}

std::string memory_of(std::string_view role, const ConstBufferView& buffer) {
  return lies_on_device(buffer) ? ", " + std::string(role) + " on a GPU" : std::string();
}

std::string from_root(int root) { return ", root " + std::to_string(root); }

std::string first_non_finite(const ConstBufferView& buffer) {
  return for_float_type(buffer.dtype,
                        [&]<class T>(T /*element*/) { return find_non_finite<T>(buffer.data, buffer.count); });
}

}  // namespace mn
