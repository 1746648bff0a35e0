#include "place/pmix.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <span>

#include <mn/core/ranks.hpp>

#include "place/kept_connections.hpp"

namespace mn::launcher {
namespace {

/// Waits for callbacks from libpmix's thread. Shared with them: they may come after the waiter has given up.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, pmix::Status>> arrived;

  void arrive(int who, pmix::Status status) {
    {
      const std::lock_guard lock(mutex);
      arrived.emplace_back(who, status);
    }
    changed.notify_all();
  }
  /// False if fewer than `count` arrived in time.
  bool wait(std::size_t count, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [&] { return arrived.size() >= count; });
  }
};

struct FenceArrival {
  std::shared_ptr<Signal> signal;
  int who;
};

void on_fence(pmix::Status status, void* context) {
  const std::unique_ptr<FenceArrival> arrival(static_cast<FenceArrival*>(context));
  arrival->signal->arrive(arrival->who, status);
}

void on_value(pmix::Status status, pmix::Value*, void* context) { on_fence(status, context); }

std::string fence_key(int number) { return "came." + std::to_string(number); }

constexpr const char* kGeneration = "mn.generation";
constexpr int kMaxFences = 3;  ///< tries at one

}  // namespace

PmixSession::PmixSession(const std::vector<std::filesystem::path>& libraries, std::chrono::milliseconds patience)
    : patience_(patience),
      library_(std::make_unique<PmixLibrary>(libraries)),
      watchdog_(std::make_unique<PmixWatchdog>(patience)) {
  const PmixWatchdog::Call call(*watchdog_);
  keep_connections_of(
      [&] { library_->check(library_->init(&library_->me, nullptr, 0), "connecting to the PMIx server of this job"); });
  job_ = read_job();
  begin_generation();
}

PmixSession::~PmixSession() {
  // After a time-out the server still waits for this client's fence, and finalize would wait with it.
  if (abandoned_) return;
  const PmixWatchdog::Call call(*watchdog_);
  library_->finalize(nullptr, 0);
}

ServerJob PmixSession::read_job() const {
  ServerJob job;
  job.name_space = library_->me.name_space;
  job.rank = static_cast<int>(library_->me.rank);
  const auto size = library_->read(pmix::kRankWildcard, pmix::kJobSize, nullptr, 0);
  if (!size || size->type != pmix::kUint32) {
    throw PmixError("the PMIx server of " + job.name_space + " does not tell the size of the job");
  }
  // Names tell the nodes apart: servers know the node numbers of their own ranks only, and PMIx_Resolve_peers finds
  // nothing where mpiexec itself runs outside of the allocation.
  for (std::uint32_t rank = 0; rank < size->data.uint32; ++rank) {
    const auto host = library_->read(rank, pmix::kHostName, nullptr, 0);
    if (!host || host->type != pmix::kString) {
      throw PmixError("the PMIx server of " + job.name_space + " does not tell the node of rank " +
                      std::to_string(rank));
    }
    job.hosts.emplace_back(host->data.string);
  }
  job.node_ids = number_nodes(std::span<const std::string>(job.hosts));
  return job;
}

void PmixSession::begin_generation() {
  const pmix::Info immediate = pmix_flag(pmix::kImmediate);
  const auto last = library_->read(library_->me.rank, kGeneration, &immediate, 1);
  pmix::Value next{};
  next.type = pmix::kUint32;
  next.data.uint32 = last && last->type == pmix::kUint32 ? last->data.uint32 + 1 : 0;
  library_->check(library_->put(pmix::kScopeGlobal, kGeneration, &next), "publishing over PMIx");
  prefix_ = "mn." + std::to_string(next.data.uint32) + ".";
}

void PmixSession::put(const std::string& key, const std::string& text) {
  std::string copy(text);  // PMIx takes a mutable pointer, but copies what it points to
  pmix::Value value{};
  value.type = pmix::kByteObject;
  value.data.object = {copy.data(), copy.size()};
  library_->check(library_->put(pmix::kScopeGlobal, (prefix_ + key).c_str(), &value),
                  "publishing " + key + " over PMIx");
}

void PmixSession::fence() {
  const PmixWatchdog::Call call(*watchdog_);
  ++fences_;
  put(fence_key(fences_), "1");
  library_->check(library_->commit(), "committing to the PMIx server");
  // A server may notice the end of an earlier program of a rank late, and then count the rank out of the fence under
  // way. That rank comes to the next one, so the others come again.
  pmix::Status status = pmix::kPartialSuccess;
  for (int i = 0; i < kMaxFences && status == pmix::kPartialSuccess; ++i) status = fence_once();
  library_->check(status, "a PMIx fence over all ranks");
}

pmix::Status PmixSession::fence_once() {
  const auto signal = std::make_shared<Signal>();
  const pmix::Proc everyone = library_->proc(pmix::kRankWildcard);
  const pmix::Info collect = pmix_flag(pmix::kCollectData);
  auto arrival = std::make_unique<FenceArrival>(signal, 0);
  library_->check(library_->fence_nb(&everyone, 1, &collect, 1, on_fence, arrival.get()), "starting a PMIx fence");
  arrival.release();  // the callback owns it now
  if (!signal->wait(1, patience_)) {
    abandoned_ = true;
    throw PmixTimeout("waiting for all ranks at a PMIx fence", ranks_that_never_came());
  }
  return signal->arrived.front().second;
}

std::vector<int> PmixSession::ranks_that_never_came() const {
  // The servers answer at once for ranks that have committed the key of this fence, and not at all for the others.
  const int size = static_cast<int>(job_.node_ids.size());
  const auto signal = std::make_shared<Signal>();
  for (int rank = 0; rank < size; ++rank) {
    auto arrival = std::make_unique<FenceArrival>(signal, rank);
    const pmix::Proc from = library_->proc(static_cast<std::uint32_t>(rank));
    const auto key = prefix_ + fence_key(fences_);
    if (library_->get_nb(&from, key.c_str(), nullptr, 0, on_value, arrival.get()) == pmix::kSuccess) arrival.release();
  }
  signal->wait(static_cast<std::size_t>(size), std::chrono::milliseconds(1500));
  const std::lock_guard lock(signal->mutex);
  std::vector<bool> came(static_cast<std::size_t>(size), false);
  came[static_cast<std::size_t>(job_.rank)] = true;
  for (const auto& [rank, status] : signal->arrived) {
    if (status == pmix::kSuccess) came[static_cast<std::size_t>(rank)] = true;
  }
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!came[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  }
  return missing;
}

std::optional<std::string> PmixSession::get(int rank, const std::string& key) {
  const PmixWatchdog::Call call(*watchdog_);
  // Not kImmediate: PMIx 5 then looks no further than this node, although the fence has brought what others put.
  const auto value = library_->read(static_cast<std::uint32_t>(rank), (prefix_ + key).c_str(), nullptr, 0);
  if (!value || value->type != pmix::kByteObject) return std::nullopt;
  return std::string(value->data.object.bytes, value->data.object.size);
}

}  // namespace mn::launcher
