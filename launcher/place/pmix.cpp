#include "place/pmix.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include <dlfcn.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/ranks.hpp>

#include "place/kept_connections.hpp"
#include "place/pmix_abi.hpp"

namespace mn::launcher {
namespace {

template <typename Function>
Function* symbol(void* handle, const char* name) {
  void* address = dlsym(handle, name);
  if (address == nullptr)
    throw PmixError(std::string("the loaded libpmix has no ") + name + ": it is older than PMIx 3");
  return reinterpret_cast<Function*>(address);
}

void* load_first(const std::vector<std::filesystem::path>& libraries) {
  std::string reasons;
  for (const auto& path : libraries) {
    // RTLD_LOCAL keeps its symbols away from a libpmix that a plugin of ours might bring.
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw PmixError("no libpmix could be loaded (" + reasons + "): put the one of your MPI on LD_LIBRARY_PATH");
}

void copy_name(char* target, std::size_t capacity, std::string_view text) {
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

pmix::Info flag(const char* key) {
  pmix::Info info{};
  copy_name(info.key, sizeof info.key, key);
  info.value.type = pmix::kBool;
  info.value.data.flag = true;
  return info;
}

/// PMIx allocates values with malloc and leaves them to the caller.
struct FreeValue {
  void operator()(pmix::Value* value) const noexcept {
    if (value->type == pmix::kString) std::free(value->data.string);
    if (value->type == pmix::kByteObject) std::free(value->data.object.bytes);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<pmix::Value, FreeValue>;

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

struct Arrival {
  std::shared_ptr<Signal> signal;
  int who;
};

void on_fence(pmix::Status status, void* context) {
  const std::unique_ptr<Arrival> arrival(static_cast<Arrival*>(context));
  arrival->signal->arrive(arrival->who, status);
}

void on_value(pmix::Status status, pmix::Value*, void* context) { on_fence(status, context); }

std::string fence_key(int number) { return "came." + std::to_string(number); }

constexpr const char* kGeneration = "mn.generation";

}  // namespace

std::vector<std::filesystem::path> pmix_libraries(const Variables& variables) {
  constexpr const char* kName = "libpmix.so.2";
  std::vector<std::filesystem::path> libraries;
  // A private MPI (a module, a container, a Python wheel) brings the libpmix that speaks its server's language.
  for (const char* folder : {"OMPI_LIBDIR_LOC", "OPAL_PREFIX", "PMIX_PREFIX"}) {
    const auto value = variables.get(folder);
    if (!value) continue;
    for (const char* below : {"", "openmpi", "lib", "lib/openmpi"})
      libraries.push_back(std::filesystem::path(*value) / below / kName);
  }
  std::erase_if(libraries, [](const auto& library) { return !std::filesystem::exists(library); });
  libraries.emplace_back(kName);
  return libraries;
}

struct PmixSession::Library {
  explicit Library(void* library)
      : handle(library),
        init(symbol<pmix::Init>(library, "PMIx_Init")),
        finalize(symbol<pmix::Finalize>(library, "PMIx_Finalize")),
        put(symbol<pmix::Put>(library, "PMIx_Put")),
        commit(symbol<pmix::Commit>(library, "PMIx_Commit")),
        fence_nb(symbol<pmix::FenceNb>(library, "PMIx_Fence_nb")),
        get(symbol<pmix::Get>(library, "PMIx_Get")),
        get_nb(symbol<pmix::GetNb>(library, "PMIx_Get_nb")),
        error_string(symbol<pmix::ErrorString>(library, "PMIx_Error_string")),
        version(symbol<pmix::GetVersion>(library, "PMIx_Get_version")) {}

  void check(pmix::Status status, const std::string& operation) const {
    if (status != pmix::kSuccess) throw PmixError(operation + ": " + error_string(status));
  }
  [[nodiscard]] pmix::Proc proc(std::uint32_t rank) const {
    pmix::Proc other = me;
    other.rank = rank;
    return other;
  }
  [[nodiscard]] OwnedValue read(std::uint32_t rank, const char* key, const pmix::Info* info, std::size_t count) const {
    const pmix::Proc from = proc(rank);
    pmix::Value* value = nullptr;
    return OwnedValue(get(&from, key, info, count, &value) == pmix::kSuccess ? value : nullptr);
  }

  void* handle;
  pmix::Init* init;
  pmix::Finalize* finalize;
  pmix::Put* put;
  pmix::Commit* commit;
  pmix::FenceNb* fence_nb;
  pmix::Get* get;
  pmix::GetNb* get_nb;
  pmix::ErrorString* error_string;
  pmix::GetVersion* version;
  pmix::Proc me{};
};

/// Ends the process if a call takes too long.
class PmixSession::Watchdog {
 public:
  explicit Watchdog(std::chrono::milliseconds patience) : patience_(patience), thread_([this] { watch(); }) {}
  ~Watchdog() {
    end_ = true;
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Watches from its making to its end.
  class Call {
   public:
    explicit Call(Watchdog& dog) : dog_(dog) { dog.deadline_ = Clock::now() + dog.patience_ + kMargin; }
    ~Call() { dog_.deadline_ = Clock::time_point::max(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    static constexpr std::chrono::seconds kMargin{2};  // a fence ends by itself, and then asks who is missing
    Watchdog& dog_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  void watch() const {
    for (; !end_; std::this_thread::sleep_for(kInterval)) {
      if (Clock::now() < deadline_.load()) continue;
      std::cerr << "mnlaunch: error [pmix] " << host_name() << ": the PMIx server of this node has not answered for "
                << std::chrono::duration_cast<std::chrono::seconds>(patience_).count()
                << " s; look for a hung mpiexec, prted or slurmstepd there" << std::endl;
      _exit(kExitCheckFailed);
    }
  }

  static constexpr std::chrono::milliseconds kInterval{2};
  std::chrono::milliseconds patience_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: it uses all the others
};

PmixSession::PmixSession(const std::vector<std::filesystem::path>& libraries, std::chrono::milliseconds patience)
    : patience_(patience),
      library_(std::make_unique<Library>(load_first(libraries))),
      watchdog_(std::make_unique<Watchdog>(patience)) {
  const Watchdog::Call call(*watchdog_);
  setenv("PMIX_MCA_gds", "hash", 1);
  keep_connections_of(
      [&] { library_->check(library_->init(&library_->me, nullptr, 0), "connecting to the PMIx server of this job"); });
  job_ = read_job();
  begin_generation();
}

PmixSession::~PmixSession() {
  // The library is never unloaded: its thread may be on its way out. After a time-out the server still waits for this
  // client's fence, and finalize would wait with it.
  if (abandoned_) return;
  const Watchdog::Call call(*watchdog_);
  library_->finalize(nullptr, 0);
}

std::string PmixSession::library_version() const { return library_->version(); }

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
  const pmix::Info immediate = flag(pmix::kImmediate);
  const auto last = library_->read(library_->me.rank, kGeneration, &immediate, 1);
  pmix::Value next{};
  next.type = pmix::kUint32;
  next.data.uint32 = last && last->type == pmix::kUint32 ? last->data.uint32 + 1 : 0;
  library_->check(library_->put(pmix::kScopeGlobal, kGeneration, &next), "publishing over PMIx");
  prefix_ = "mn." + std::to_string(next.data.uint32) + ".";
}

void PmixSession::put(const std::string& key, std::string_view bytes) {
  std::string copy(bytes);  // PMIx takes a mutable pointer, but copies what it points to
  pmix::Value value{};
  value.type = pmix::kByteObject;
  value.data.object = {copy.data(), copy.size()};
  library_->check(library_->put(pmix::kScopeGlobal, (prefix_ + key).c_str(), &value),
                  "publishing " + key + " over PMIx");
}

void PmixSession::fence() {
  const Watchdog::Call call(*watchdog_);
  ++fences_;
  put(fence_key(fences_), "1");
  library_->check(library_->commit(), "committing to the PMIx server");
  const auto signal = std::make_shared<Signal>();
  const pmix::Proc everyone = library_->proc(pmix::kRankWildcard);
  const pmix::Info collect = flag(pmix::kCollectData);
  auto arrival = std::make_unique<Arrival>(signal, 0);
  library_->check(library_->fence_nb(&everyone, 1, &collect, 1, on_fence, arrival.get()), "starting a PMIx fence");
  arrival.release();  // the callback owns it now
  if (!signal->wait(1, patience_)) {
    abandoned_ = true;
    throw PmixTimeout("waiting for all ranks at a PMIx fence", ranks_that_never_came());
  }
  library_->check(signal->arrived.front().second, "a PMIx fence over all ranks");
}

std::vector<int> PmixSession::ranks_that_never_came() const {
  // The servers answer at once for ranks that have committed the key of this fence, and not at all for the others.
  const int size = static_cast<int>(job_.node_ids.size());
  const auto signal = std::make_shared<Signal>();
  for (int rank = 0; rank < size; ++rank) {
    auto arrival = std::make_unique<Arrival>(signal, rank);
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

std::optional<std::string> PmixSession::get(int rank, const std::string& key) const {
  const Watchdog::Call call(*watchdog_);
  const pmix::Info immediate = flag(pmix::kImmediate);
  const auto value = library_->read(static_cast<std::uint32_t>(rank), (prefix_ + key).c_str(), &immediate, 1);
  if (!value || value->type != pmix::kByteObject) return std::nullopt;
  return std::string(value->data.object.bytes, value->data.object.size);
}

}  // namespace mn::launcher
