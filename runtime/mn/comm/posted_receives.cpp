#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <mn/comm/call_limits.hpp>
#include <mn/comm/mpi.hpp>
#include <mn/comm/posted_receives.hpp>
#include <mn/core/blocked_signals.hpp>

namespace mn {
namespace {

constexpr auto kBetweenLooks = std::chrono::microseconds(50);
constexpr auto kMaxBetweenLooks = std::chrono::microseconds(2000);  // of the thread

}  // namespace

/// All of this process, in the order of their calls.
class PostedReceives {
 public:
  static PostedReceives& all() {
    static auto& receives = *new PostedReceives;  // the thread may outlive main()
    return receives;
  }

  void add(PostedReceive& receive) {
    const std::lock_guard lock(mutex_);
    if (!has_thread_ && mpi_takes_threads()) start_thread();
    receives_.push_back(&receive);
    count_ = receives_.size();
    changed_.notify_all();
  }
  void remove(const PostedReceive& receive) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(receives_, &receive);
    count_ = receives_.size();
  }
  void remove_all(MPI_Comm comm) noexcept {
    if (count_ == 0) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(receives_, [&](const PostedReceive* each) { return each->comm_ == comm; });
    count_ = receives_.size();
  }
  [[nodiscard]] bool has_ended(const PostedReceive& receive) {
    const std::lock_guard lock(mutex_);
    look();
    return receive.has_ended_;
  }
  [[nodiscard]] bool has_one_like(MPI_Comm comm, int source, int tag) {
    if (count_ == 0) return false;
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(receives_, [&](const PostedReceive* each) {
      return each->comm_ == comm && may_meet(each->source_, source, MPI_ANY_SOURCE) &&
             may_meet(each->tag_, tag, MPI_ANY_TAG);
    });
  }

 private:
  [[nodiscard]] static bool may_meet(int a, int b, int any) { return a == b || a == any || b == any; }
  /// Whether it takes each message that is of this source and tag, which may be any.
  [[nodiscard]] static bool takes(const PostedReceive& receive, int source, int tag) {
    return (receive.source_ == source || receive.source_ == MPI_ANY_SOURCE) &&
           (receive.tag_ == tag || receive.tag_ == MPI_ANY_TAG);
  }

  void look() {
    for (std::size_t i = 0; i < receives_.size();) {
      PostedReceive& receive = *receives_[i];
      try {
        receive.has_ended_ = match(i);
      } catch (...) {
        receive.error_ = std::current_exception();
        receive.has_ended_ = true;
      }
      receive.has_ended_ ? void(receives_.erase(receives_.begin() + static_cast<std::ptrdiff_t>(i))) : void(++i);
    }
    count_ = receives_.size();  // after what they have posted
  }

  bool match(std::size_t i) {
    const PostedReceive& receive = *receives_[i];
    int source = receive.source_;
    int tag = receive.tag_;
    const auto taken_before = [&] {
      return std::any_of(receives_.begin(), receives_.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const auto* each) { return each->comm_ == receive.comm_ && takes(*each, source, tag); });
    };
    if (taken_before()) return false;  // (1): whatever comes, one before takes it
    int found = 0;
    MPI_Status status;
    if (i > 0) {  // (1): which message it is decides whether one before takes it
      mpi_check(MPI_Iprobe(source, tag, receive.comm_, &found, &status), "MPI_Iprobe");
      if (found == 0) return false;
      source = status.MPI_SOURCE;
      tag = status.MPI_TAG;
      if (taken_before()) return false;
    }
    // (3): nobody takes the message between the two probes, as the lock is held.
    MPI_Message message = MPI_MESSAGE_NULL;
    mpi_check(MPI_Improbe(source, tag, receive.comm_, &found, &message, &status), "MPI_Improbe");
    if (found == 0) return false;
    receive.take_(message, status);
    return true;
  }

  void start_thread() {
    has_thread_ = true;
    // (4): MPI deletes the attributes of MPI_COMM_SELF before all else that MPI_Finalize does.
    const auto stop = [](MPI_Comm, int, void* self, void*) {
      auto* const receives = static_cast<PostedReceives*>(self);
      const std::lock_guard lock(receives->mutex_);
      receives->stopped_ = true;
      receives->changed_.notify_all();
      return MPI_SUCCESS;
    };
    int key = MPI_KEYVAL_INVALID;
    mpi_check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &key, nullptr), "MPI_Comm_create_keyval");
    mpi_check(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "MPI_Comm_set_attr");
    const BlockedSignals blocked;  // signals belong to the program's threads
    std::thread([this] { run(); }).detach();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (auto pause = kBetweenLooks; !stopped_;) {
      if (receives_.empty()) {
        changed_.wait(lock);
        pause = kBetweenLooks;
        continue;
      }
      look();
      changed_.wait_for(lock, pause);
      pause = std::min(2 * pause, kMaxBetweenLooks);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PostedReceive*> receives_;
  std::atomic<std::size_t> count_{0};
  bool has_thread_ = false;
  bool stopped_ = false;
};

PostedReceive::PostedReceive(MPI_Comm comm, int source, int tag, Take take)
    : comm_(comm), source_(source), tag_(tag), take_(std::move(take)) {
  PostedReceives::all().add(*this);
}

PostedReceive::~PostedReceive() { PostedReceives::all().remove(*this); }

bool PostedReceive::has_taken() {
  if (!PostedReceives::all().has_ended(*this)) return false;
  if (error_) std::rethrow_exception(error_);
  return true;
}

void PostedReceive::wait() {
  while (!has_taken()) {
    check_limits();
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

bool follows_posted_receives(MPI_Comm comm, int source, int tag) {
  return PostedReceives::all().has_one_like(comm, source, tag);
}

void withdraw_receives(MPI_Comm comm) noexcept { PostedReceives::all().remove_all(comm); }

}  // namespace mn
