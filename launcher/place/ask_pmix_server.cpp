#include "place/ask_pmix_server.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <set>
#include <span>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/watchdog.hpp>

#include "place/pmix_library.hpp"

namespace mn::launcher {
namespace {

/// The status of libpmix's answer. The callback owns it, because the requester may have given up.
using Answer = std::promise<pmix::Status>;

void on_fence(pmix::Status status, void* context) {
  const std::unique_ptr<Answer> answer(static_cast<Answer*>(context));
  answer->set_value(status);
}

void on_value(pmix::Status status, pmix::Value*, void* context) { on_fence(status, context); }

std::string fence_key(int number) { return "came." + std::to_string(number); }

constexpr const char* kGeneration = "mn.generation";
constexpr int kMaxFences = 3;  ///< tries of one fence

/// The header of a file of locks (free_locks_of_store()). A mark for each lock follows: 0 is free, 1 is taken. Source:
/// openpmix, src/mca/gds/ds21/gds_ds21_lock_pthread.c.
struct LocksHeader {
  std::size_t bytes;
  std::uint32_t count;
  std::size_t alignment;
  std::size_t first_lock;
};

bool free_locks(std::uintptr_t begin, std::size_t bytes) {
  const auto* header = reinterpret_cast<const LocksHeader*>(begin);
  const std::size_t end_of_marks = sizeof *header + header->count * sizeof(std::int32_t);
  if (header->bytes != bytes || end_of_marks > header->first_lock || header->first_lock >= bytes) return false;
  const std::span marks(reinterpret_cast<std::int32_t*>(begin + sizeof *header), header->count);
  // If a mark is neither 0 nor 1, the layout of the file is unknown.
  if (!std::ranges::all_of(marks, [](std::int32_t mark) { return mark == 0 || mark == 1; })) return false;
  // Atomic: clients on the node may read the mark at any time.
  for (auto& mark : marks) __atomic_store_n(&mark, 0, __ATOMIC_SEQ_CST);
  return true;
}

/// Sockets that shutdown() must not shut down. Never destroyed: libraries may call shutdown() in exit().
std::set<int>& kept() {
  static auto* const sockets = new std::set<int>;
  return *sockets;
}

std::set<int> connected_sockets() {
  std::set<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) sockets.insert(fd);
  }
  return sockets;
}

/// Calls `connect`. Its connections stay open until the process ends, even after exec or a close by the library.
void keep_connections_of(const std::function<void()>& connect) {
  const std::set<int> others = connected_sockets();
  connect();
  for (const int socket : connected_sockets()) {
    if (!others.contains(socket) && dup(socket) >= 0) kept().insert(socket);
  }
}

constexpr std::chrono::seconds kMargin{2};  ///< a fence needs this time after its time-out to find the missing ranks

/// While an object lives, the watchdog limits a call of libpmix, which would wait forever for a hung server.
class WatchedCall {
 public:
  explicit WatchedCall(Watchdog& watchdog) : watchdog_(watchdog) { watchdog.begin(""); }
  ~WatchedCall() { watchdog_.end(); }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  Watchdog& watchdog_;
};

[[noreturn]] void end_process(std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  std::cerr << "mnlaunch: error [pmix] " + host_name() + ": the PMIx server of this node has not answered for " +
                   std::to_string(seconds) + " s; look for a hung mpiexec, prted or slurmstepd there\n";
  _exit(kExitCheckFailed);
}

class PmixSession : public Board {
 public:
  PmixSession(const std::vector<std::filesystem::path>& libraries, std::chrono::milliseconds patience)
      : patience_(patience),
        library_(libraries),
        watchdog_(patience + kMargin, [patience](const std::string&) { end_process(patience); }) {
    const WatchedCall call(watchdog_);
    keep_connections_of(
        [&] { library_.check(library_.init(&library_.me, nullptr, 0), "connecting to the PMIx server of this job"); });
    read_job();
    begin_generation();
  }
  ~PmixSession() override {
    // The server still waits for missing ranks, and finalizing would wait with it.
    if (abandoned_) return;
    const WatchedCall call(watchdog_);
    library_.finalize(nullptr, 0);
  }

  [[nodiscard]] const ServerJob& job() const noexcept { return job_; }

  void put(const std::string& key, const std::string& text) override {
    std::string copy(text);  // PMIx takes a mutable pointer, but copies the bytes
    pmix::Value value{};
    value.type = pmix::kByteObject;
    value.data.object = {copy.data(), copy.size()};
    library_.check(library_.put(pmix::kScopeGlobal, (prefix_ + key).c_str(), &value),
                   "publishing " + key + " over PMIx");
  }

  void fence() override {
    const WatchedCall call(watchdog_);
    ++fences_;
    put(fence_key(fences_), "1");
    library_.check(library_.commit(), "committing to the PMIx server");
    // The server may notice the end of this rank's earlier program only now. It then ends the current fence without the
    // rank, and returns kPartialSuccess. The rank takes part in the next fence again.
    pmix::Status status = pmix::kPartialSuccess;
    for (int i = 0; i < kMaxFences && status == pmix::kPartialSuccess; ++i) status = fence_once();
    library_.check(status, "a PMIx fence over all ranks");
  }

  std::optional<std::string> get(int rank, const std::string& key) override {
    const WatchedCall call(watchdog_);
    // With kImmediate, PMIx 5 would look for values on this node only.
    const auto value = library_.read(static_cast<std::uint32_t>(rank), (prefix_ + key).c_str(), nullptr, 0);
    if (!value || value->type != pmix::kByteObject) return std::nullopt;
    return std::string(value->data.object.bytes, value->data.object.size);
  }

 private:
  void read_job() {
    job_.name_space = library_.me.name_space;
    job_.rank = static_cast<int>(library_.me.rank);
    const std::string server = "the PMIx server of " + job_.name_space;
    const auto size = library_.read(pmix::kRankWildcard, pmix::kJobSize, nullptr, 0);
    if (!size || size->type != pmix::kUint32) throw PmixError(server + " does not tell the size of the job");
    // Not by node numbers (a server knows only those of its own ranks), and not by PMIx_Resolve_peers (it finds nothing
    // if mpiexec runs elsewhere).
    for (std::uint32_t rank = 0; rank < size->data.uint32; ++rank) {
      const auto host = library_.read(rank, pmix::kHostName, nullptr, 0);
      if (!host || host->type != pmix::kString) {
        throw PmixError(server + " does not tell the node of rank " + std::to_string(rank));
      }
      job_.hosts.emplace_back(host->data.string);
    }
    job_.node_ids = number_nodes(std::span<const std::string>(job_.hosts));
  }

  void begin_generation() {
    const pmix::Info immediate = pmix_flag(pmix::kImmediate);
    const auto last = library_.read(library_.me.rank, kGeneration, &immediate, 1);
    pmix::Value next{};
    next.type = pmix::kUint32;
    next.data.uint32 = last && last->type == pmix::kUint32 ? last->data.uint32 + 1 : 0;
    library_.check(library_.put(pmix::kScopeGlobal, kGeneration, &next), "publishing over PMIx");
    prefix_ = "mn." + std::to_string(next.data.uint32) + ".";
  }

  /// Tries the fence once, and returns the server's status. Throws FenceTimeout with the absent ranks.
  pmix::Status fence_once() {
    const pmix::Proc everyone = library_.proc(pmix::kRankWildcard);
    const pmix::Info collect = pmix_flag(pmix::kCollectData);
    auto answer = std::make_unique<Answer>();
    auto status = answer->get_future();
    library_.check(library_.fence_nb(&everyone, 1, &collect, 1, on_fence, answer.get()), "starting a PMIx fence");
    static_cast<void>(answer.release());  // the callback owns it now
    if (status.wait_for(patience_) == std::future_status::ready) return status.get();
    abandoned_ = true;
    throw FenceTimeout("waiting for all ranks at a PMIx fence", ranks_that_never_came());
  }

  /// Asks the server for the key that each rank commits before the fence; for a missing rank no answer comes.
  [[nodiscard]] std::vector<int> ranks_that_never_came() const {
    const std::string key = prefix_ + fence_key(fences_);
    std::vector<std::future<pmix::Status>> answers;
    for (std::size_t rank = 0; rank < job_.hosts.size(); ++rank) {
      auto answer = std::make_unique<Answer>();
      answers.push_back(answer->get_future());
      const pmix::Proc from = library_.proc(static_cast<std::uint32_t>(rank));
      const pmix::Status status = library_.get_nb(&from, key.c_str(), nullptr, 0, on_value, answer.get());
      if (status != pmix::kSuccess) answer->set_value(status);
      if (status == pmix::kSuccess) static_cast<void>(answer.release());
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    std::vector<int> missing;
    for (int rank = 0; rank < static_cast<int>(answers.size()); ++rank) {
      auto& answer = answers[static_cast<std::size_t>(rank)];
      const bool has_come = answer.wait_until(end) == std::future_status::ready && answer.get() == pmix::kSuccess;
      if (!has_come && rank != job_.rank) missing.push_back(rank);
    }
    return missing;
  }

  std::chrono::milliseconds patience_;
  PmixLibrary library_;
  Watchdog watchdog_;
  ServerJob job_;
  /// Differs from the prefixes of this rank's earlier processes, whose values stay in the stores.
  std::string prefix_;
  int fences_ = 0;
  bool abandoned_ = false;
};

}  // namespace

JobServer ask_pmix_server(const Variables& variables, const std::vector<std::filesystem::path>& folders,
                          std::chrono::milliseconds patience) try {
  auto session = std::make_unique<PmixSession>(pmix_libraries(variables, folders), patience);
  ServerJob job = session->job();
  return {std::move(session), std::move(job), ""};
} catch (const PmixError& error) {
  return {nullptr, std::nullopt, error.what()};
}

bool free_locks_of_store() {
  bool has_store = false;
  bool is_free = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    has_store = has_store || line.find("/pmix_dstor") != std::string::npos;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char access[5] = {};
    if (line.find("/smlockseg-") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || std::string(access) != "rw-s") continue;
    is_free = free_locks(begin, end - begin);
    if (!is_free) return false;
  }
  return is_free || !has_store;
}

}  // namespace mn::launcher

/// Replaces shutdown(2) for libraries loaded after mnlaunch: a duplicate keeps a connection open after close() only.
extern "C" int shutdown(int socket, int how) noexcept {
  if (mn::launcher::kept().contains(socket)) return 0;
  return static_cast<int>(syscall(SYS_shutdown, socket, how));
}
