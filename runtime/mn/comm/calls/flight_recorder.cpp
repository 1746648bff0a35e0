#include <mn/comm/calls/flight_recorder.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <exception>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mn {

/// The record of one call. `entry` is 4 × (number of the record) + (its State).
struct alignas(64) Slot {
  std::atomic<std::uint64_t> entry;
  std::atomic<const char*> operation;
  std::atomic<std::uint32_t> operation_length;
  std::atomic<std::uint32_t> thread;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> count;
  std::atomic<std::int64_t> started_ns;
  std::atomic<std::int64_t> ended_ns;
  std::atomic<std::int32_t> leader, ordinal, rank, size, peer, world_peer;
  std::atomic<DType> dtype;
  std::atomic<bool> on_device;
};

namespace {

constexpr std::size_t kCalls = 256;
constexpr std::uint64_t kStates = 4;
enum State : std::uint64_t { kReturned, kThrown, kWriting, kRunning };

// Global, because a signal handler gets no data. A slot of zeros counts as a call that has returned.
constinit std::array<Slot, kCalls> ring;
constinit std::atomic<std::uint64_t> last_record{0};

/// A text for write_calls() in two copies: a signal handler may read one while set() writes to the other.
template <std::size_t Bytes>
class Text {
 public:
  void set(std::string_view text) {
    const std::size_t other = 1 - current_.load();
    texts_[other][text.copy(texts_[other], Bytes - 1)] = '\0';
    current_.store(other);
  }
  [[nodiscard]] const char* get() const { return texts_[current_.load()]; }

 private:
  char texts_[2][Bytes] = {};
  std::atomic<std::size_t> current_{0};
};
constinit Text<4096> folder_path;
constinit Text<4096> file_path;  // empty: no file, but stderr unless folder_path is empty
constinit Text<512> writer;      // for instance "rank":3,"size":4,"host":"n1","pid":812
constinit std::atomic<int> writer_rank{0};
constinit std::atomic_flag is_writing;

constexpr std::string_view kStandardError = "stderr";

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::uint32_t thread_id() {
  thread_local const auto id = static_cast<std::uint32_t>(gettid());
  return id;
}

class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor) {}
  Lines& add(std::string_view text) {
    length_ += text.copy(line_ + length_, sizeof line_ - 1 - length_);
    return *this;
  }
  template <class Number>
  Lines& add_field(std::string_view name, Number value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    return add(name).add({digits, static_cast<std::size_t>(end.ptr - digits)});
  }
  void end() {
    line_[length_++] = '\n';
    for (std::size_t done = 0; done < length_;) {
      const ssize_t written = write(descriptor_, line_ + done, length_ - done);
      if (written < 0 && errno != EINTR) break;
      done += static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    }
    drop();
  }
  void drop() { length_ = 0; }

 private:
  int descriptor_;
  char line_[1024];
  std::size_t length_ = 0;
};

template <class T>
T get(const std::atomic<T>& field) {
  return field.load(std::memory_order_relaxed);
}

void add_call(Lines& lines, const Slot& slot) {
  const std::uint64_t entry = slot.entry.load(std::memory_order_acquire);
  const char* const operation = slot.operation.load(std::memory_order_relaxed);
  const std::string_view name(operation, operation == nullptr ? 0 : slot.operation_length.load());
  if (entry / kStates == 0 || entry % kStates == kWriting) return;
  constexpr std::array<std::string_view, kStates> kNames = {"returned", "failed", "", "running"};
  lines.add_field("{\"record\":", entry / kStates).add(",\"state\":\"").add(kNames[entry % kStates]);
  lines.add("\",\"call\":\"").add(name).add("\"").add_field(",\"number\":", get(slot.number));
  lines.add_field(",\"leader\":", get(slot.leader)).add_field(",\"ordinal\":", get(slot.ordinal));
  lines.add_field(",\"rank\":", get(slot.rank)).add_field(",\"size\":", get(slot.size));
  lines.add_field(",\"count\":", get(slot.count)).add(",\"dtype\":\"").add(name_of(get(slot.dtype))).add("\"");
  lines.add_field(",\"peer\":", get(slot.peer)).add_field(",\"thread\":", get(slot.thread));
  lines.add_field(",\"started_us\":", get(slot.started_ns) / 1000);
  if (entry % kStates != kRunning) lines.add_field(",\"ended_us\":", get(slot.ended_ns) / 1000);
  lines.add("}");
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.entry.load(std::memory_order_relaxed) == entry) return lines.end();  // invariant 3: the whole call was read
  lines.drop();
}

std::string described(const Slot& slot) {
  const std::string name(get(slot.operation), get(slot.operation_length));
  const std::uint64_t number = get(slot.number), count = get(slot.count);
  const int peer = get(slot.peer);
  std::string text = name + (number > 0 ? " (call " + std::to_string(number) : " (a message");
  if (number == 0 && peer >= 0) text += ", the other side is its rank " + std::to_string(peer);
  if (count > 0) text += ", " + std::to_string(count) + " " + std::string(name_of(get(slot.dtype)));
  return text + ")";
}

/// Reads the call in a slot. No value if its state is not `state`, or if the slot changes during the reading.
std::optional<CallUnderWay> read_call(const Slot& slot, State state) {
  const std::uint64_t entry = slot.entry.load(std::memory_order_acquire);
  if (entry / kStates == 0 || entry % kStates != state) return {};
  CallUnderWay call{.record = entry / kStates,
                    .operation = std::string(get(slot.operation), get(slot.operation_length)),
                    .text = described(slot),
                    .leader = get(slot.leader),
                    .ordinal = get(slot.ordinal),
                    .number = get(slot.number),
                    .world_peer = get(slot.world_peer),
                    .seconds = static_cast<double>(now_ns() - get(slot.started_ns)) * 1e-9,
                    .on_main_thread = get(slot.thread) == static_cast<std::uint32_t>(getpid())};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (slot.entry.load(std::memory_order_relaxed) != entry) return {};
  return call;
}

}  // namespace

std::vector<CallUnderWay> calls_under_way() {
  std::vector<CallUnderWay> calls;
  for (const Slot& slot : ring) {
    if (auto call = read_call(slot, kRunning)) calls.push_back(*std::move(call));
  }
  std::ranges::sort(calls, {}, &CallUnderWay::record);
  return calls;
}

std::optional<CallUnderWay> call_under_way() {
  std::vector<CallUnderWay> calls = calls_under_way();
  if (!calls.empty()) {
    const auto main = std::ranges::find_if(calls, &CallUnderWay::on_main_thread);
    CallUnderWay& call = main != calls.end() ? *main : calls.front();
    call.blocks = main != calls.end() || BackgroundWait::any();
    return std::move(call);
  }
  const Slot& last = ring[last_record % kCalls];
  if (!get(last.on_device)) return {};
  auto call = read_call(last, kReturned);
  if (call) call->blocks = call->enqueued = true;
  return call;
}

std::uint64_t calls_begun() noexcept { return last_record; }

RecordedCall::RecordedCall(const GroupName& group, const CallName& call) noexcept
    : slot_(nullptr), exceptions_(std::uncaught_exceptions()) {
  std::uint64_t record = 0;
  for (std::size_t tries = 0; tries < kCalls && slot_ == nullptr; ++tries) {
    record = last_record.fetch_add(1, std::memory_order_relaxed) + 1;
    Slot& slot = ring[record % kCalls];
    std::uint64_t entry = slot.entry.load(std::memory_order_relaxed);
    if (entry % kStates >= kWriting) continue;  // invariant 2: this slot's call has not ended
    if (slot.entry.compare_exchange_strong(entry, record * kStates + kWriting, std::memory_order_acq_rel)) {
      slot_ = &slot;
    }
  }
  if (slot_ == nullptr) return;
  const auto set = [](auto& field, auto value) { field.store(value, std::memory_order_relaxed); };
  set(slot_->operation, call.operation.data());
  set(slot_->operation_length, static_cast<std::uint32_t>(call.operation.size()));
  set(slot_->thread, thread_id());
  set(slot_->number, call.number);
  set(slot_->count, call.count);
  set(slot_->leader, group.leader);
  set(slot_->ordinal, group.ordinal);
  set(slot_->rank, group.rank);
  set(slot_->size, group.size);
  set(slot_->peer, call.peer);
  set(slot_->world_peer, call.world_peer);
  set(slot_->on_device, call.on_device);
  set(slot_->dtype, call.dtype);
  set(slot_->started_ns, now_ns());
  slot_->entry.store(record * kStates + kRunning, std::memory_order_release);
}

RecordedCall::~RecordedCall() {
  if (slot_ == nullptr) return;
  // Invariant 3: `entry` changes last, so a reader of the new state also sees the end time.
  slot_->ended_ns.store(now_ns(), std::memory_order_relaxed);
  const std::uint64_t record = slot_->entry.load(std::memory_order_relaxed) / kStates;
  const State state = std::uncaught_exceptions() > exceptions_ ? kThrown : kReturned;
  slot_->entry.store(record * kStates + state, std::memory_order_release);
}

void name_calls_writer(int rank, int size, const std::string& host) {
  writer_rank.store(rank);
  writer.set("\"rank\":" + std::to_string(rank) + ",\"size\":" + std::to_string(size) + ",\"host\":\"" + host +
             "\",\"pid\":" + std::to_string(getpid()));
}

void set_calls_folder(const std::string& folder) {
  const std::string rank = std::to_string(writer_rank.load());
  const std::string digits = std::string(4 - std::min<std::size_t>(rank.size(), 4), '0') + rank;
  file_path.set(folder.empty() || folder == kStandardError ? "" : folder + "/rank-" + digits + ".jsonl");
  folder_path.set(folder);
}

void write_calls(std::string_view reason) noexcept {
  const char* const folder = folder_path.get();
  if (*folder == '\0' || is_writing.test_and_set()) return;
  const int saved_errno = errno;
  const char* const path = file_path.get();
  int descriptor = STDERR_FILENO;
  if (*path != '\0') {
    mkdir(folder, 0777);
    descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (descriptor >= 0) {
    Lines lines(descriptor);
    lines.add("{").add(writer.get()).add(",\"reason\":\"").add(reason).add("\"");
    lines.add_field(",\"written_us\":", now_ns() / 1000).add("}").end();
    for (const Slot& slot : ring) add_call(lines, slot);
    if (descriptor != STDERR_FILENO) close(descriptor);
  }
  errno = saved_errno;
  is_writing.clear();
}

}  // namespace mn
