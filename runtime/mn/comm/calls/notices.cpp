#include <mn/comm/calls/notices.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

constexpr int kTag = 0;

}  // namespace

/// Carries the notices of all groups that have the same ranks in the same order.
class NoticeChannel {
 public:
  explicit NoticeChannel(Mpi comm) : comm_(std::move(comm)) {}

  static NoticeChannel& of_ranks(MPI_Comm comm) {
    static auto& mutex = *new std::mutex;  // threads may outlive main()
    static auto& channels = *new std::vector<std::unique_ptr<NoticeChannel>>;
    {
      const std::lock_guard lock(mutex);
      for (const auto& each : channels) {
        int relation = MPI_UNEQUAL;
        mpi_check(MPI_Comm_compare(comm, each->comm_.get(), &relation), "MPI_Comm_compare");
        if (relation == MPI_CONGRUENT) return *each;
      }
    }
    // Without the lock: the duplication waits for all ranks, and another rank may wait for a second thread of this
    // process that needs the lock.
    auto made = std::make_unique<NoticeChannel>(Mpi::duplicate(comm));
    const std::lock_guard lock(mutex);
    return *channels.emplace_back(std::move(made));
  }

  void add(Notices& group) {
    const std::lock_guard lock(mutex_);
    groups_[group.group_.ordinal] = &group;
    newest_ = std::max<std::int64_t>(newest_, std::abs(group.group_.ordinal));
    std::erase_if(early_, [&](const Notice& each) {
      const bool is_its = each.group == group.group_.ordinal;
      if (is_its) group.waiting_.push_back(each);
      return is_its;
    });
  }
  void remove(const Notices& group) {
    const std::lock_guard lock(mutex_);
    groups_.erase(group.group_.ordinal);
    std::erase_if(early_, [&](const Notice& each) { return std::abs(each.group) == group.group_.ordinal; });
  }
  void send(int rank, const Notice& kept) const {
    if (!mpi_is_up()) return;
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(&kept, sizeof kept, MPI_BYTE, rank, kTag, comm_.get(), &request) != MPI_SUCCESS) return;
    static_cast<void>(MPI_Request_free(&request));  // no wait: the receiver may be gone
  }
  bool take(Notices& group, Notice& notice, std::optional<Notice::Kind> kind) {
    const std::lock_guard lock(mutex_);
    while (receive(notice)) deliver(notice);
    const auto next =
        std::ranges::find_if(group.waiting_, [&](const Notice& each) { return !kind || each.kind == *kind; });
    if (next == group.waiting_.end()) return false;
    notice = *next;
    group.waiting_.erase(next);
    return true;
  }

 private:
  [[nodiscard]] bool receive(Notice& notice) const {
    int found = 0;
    if (!mpi_is_up() || MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_.get(), &found, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        found == 0)
      return false;
    return MPI_Recv(&notice, sizeof notice, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_.get(), MPI_STATUS_IGNORE) ==
           MPI_SUCCESS;
  }
  void deliver(const Notice& notice) {
    if (const auto found = groups_.find(notice.group); found != groups_.end()) {
      found->second->waiting_.push_back(notice);
    } else if (std::abs(notice.group) > newest_ || groups_.contains(std::abs(notice.group))) {
      early_.push_back(notice);
    }  // invariant 2: a notice for a group that has ended is dropped
  }

  Mpi comm_;
  std::mutex mutex_;
  std::map<std::int64_t, Notices*> groups_;  // by ordinal
  std::int64_t newest_ = 0;                  // the groups' first rank counts them, so it grows
  std::vector<Notice> early_;                // for groups that this rank has not made yet
};

Notice::Notice(Kind kind_, int rank_, std::uint64_t question_, const CallName& call, std::string_view why)
    : kind(kind_), rank(rank_), question(question_), number(call.number), count(call.count), dtype(call.dtype) {
  call.operation.copy(operation, sizeof operation - 1);
  why.copy(text, sizeof text - 1);
}

Notices::Notices(MPI_Comm comm, const GroupName& group) : channel_(NoticeChannel::of_ranks(comm)), group_(group) {
  channel_.add(*this);
}

Notices::~Notices() { channel_.remove(*this); }

void Notices::send(int rank, const Notice& notice) {
  static_assert(std::is_trivially_copyable_v<Notice>);
  auto* const kept = new Notice(notice);
  kept->group = group_.ordinal;
  channel_.send(rank, *kept);
}

void Notices::send_all(const Notice& notice) {
  for (int rank = 0; rank < group_.size; ++rank) {
    if (rank != group_.rank) send(rank, notice);
  }
}

bool Notices::take(Notice& notice, std::optional<Notice::Kind> kind) { return channel_.take(*this, notice, kind); }

}  // namespace mn
