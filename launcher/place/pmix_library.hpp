/// libpmix, loaded at run time, and a watchdog for calls to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/error.hpp>

#include "place/pmix_abi.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// The server or the library failed.
class PmixError : public Error {
 public:
  using Error::Error;
};

/// Paths to try for libpmix: beside the MPI of the mpiexec above, in `folders`, then by the dynamic loader.
[[nodiscard]] std::vector<std::filesystem::path> pmix_libraries(const Variables& variables,
                                                                const std::vector<std::filesystem::path>& folders = {});

/// A PMIx directive with the value true.
[[nodiscard]] pmix::Info pmix_flag(const char* key);

/// PMIx allocates values with malloc, and the caller frees them.
struct FreeValue {
  void operator()(pmix::Value* value) const noexcept {
    if (value->type == pmix::kString) std::free(value->data.string);
    if (value->type == pmix::kByteObject) std::free(value->data.object.bytes);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<pmix::Value, FreeValue>;

/// The functions of libpmix, and this process's name in the job. Never unloaded: a thread of libpmix may still be
/// ending.
struct PmixLibrary {
  /// Loads the first of `libraries` that loads. Throws PmixError if none loads, or if a function is missing.
  explicit PmixLibrary(const std::vector<std::filesystem::path>& libraries);

  /// Throws PmixError that names `operation`.
  void check(pmix::Status status, const std::string& operation) const;
  [[nodiscard]] pmix::Proc proc(std::uint32_t rank) const;
  /// Null if there is no value.
  [[nodiscard]] OwnedValue read(std::uint32_t rank, const char* key, const pmix::Info* info, std::size_t count) const;

  void* const handle;
  pmix::Init* const init;
  pmix::Finalize* const finalize;
  pmix::Put* const put;
  pmix::Commit* const commit;
  pmix::FenceNb* const fence_nb;
  pmix::Get* const get;
  pmix::GetNb* const get_nb;
  pmix::ErrorString* const error_string;
  pmix::Proc me{};
};

/// Ends the process if a call to libpmix takes too long: libpmix waits forever for a server that hangs.
class PmixWatchdog {
 public:
  explicit PmixWatchdog(std::chrono::milliseconds patience) : patience_(patience), thread_([this] { watch(); }) {}
  ~PmixWatchdog() {
    end_ = true;
    thread_.join();
  }
  PmixWatchdog(const PmixWatchdog&) = delete;
  PmixWatchdog& operator=(const PmixWatchdog&) = delete;

  /// The watchdog watches a call from construction to destruction.
  class Call {
   public:
    explicit Call(PmixWatchdog& dog) : dog_(dog) { dog.deadline_ = Clock::now() + dog.patience_ + kMargin; }
    ~Call() { dog_.deadline_ = Clock::time_point::max(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    static constexpr std::chrono::seconds kMargin{2};  // a fence times out by itself, and then finds the missing ranks
    PmixWatchdog& dog_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  /// Writes one line and exits with kExitCheckFailed after the deadline.
  void watch() const;

  std::chrono::milliseconds patience_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: uses all other members
};

}  // namespace mn::launcher
