#include "tests/support/stand_in_gpu/nccl_comm.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include <mn/core/environment.hpp>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"

namespace mn::stand_in {
namespace {

constexpr auto kNap = std::chrono::microseconds(20);
constexpr int kLooksForLosses = 500;  // naps between two looks

void nap() { std::this_thread::sleep_for(kNap); }

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::memset(to, 0, N);
  text.copy(to, N - 1);
}

std::string& words_of_thread() {
  static thread_local std::string words;
  return words;
}

}  // namespace

ncclResult_t refuse(ncclResult_t code, const std::string& words) {
  words_of_thread() = words;
  return code;
}

const std::string& last_words() { return words_of_thread(); }

int shown_version() { return static_cast<int>(environment_int("STAND_IN_NCCL_VERSION").value_or(NCCL_VERSION_CODE)); }

bool nccl_fails(const std::string& call) {
  const bool fails = must_fail(call);
  if (fails) refuse(ncclInternalError, "the failure of " + call + " that was asked for");
  return fails;
}

Comm::Comm(const std::string& segment, int rank, int size, int device, bool is_blocking)
    : segment_(segment, size), rank_(rank), size_(size), device_(device), is_blocking_(is_blocking) {}

std::string Comm::words() const {
  const std::lock_guard lock(words_mutex_);
  return words_;
}

void Comm::fail(ncclResult_t code, const std::string& words) {
  const std::lock_guard lock(words_mutex_);
  words_ = words;
  error_ = code;
}

void Comm::look_for_losses() {
  for (int r = 0; r < size_; ++r) {
    const pid_t pid = segment_.slot(r).pid;
    if (pid != 0 && kill(pid, 0) != 0) fail(ncclRemoteError, "rank " + std::to_string(r) + " is gone");
  }
}

void Comm::say_who_is_late() {
  std::string late;
  for (int r = 0; r < size_; ++r) {
    if (segment_.slot(r).meetings < mine().meetings) late += " " + std::to_string(r);
  }
  complain("NCCL waits in " + mine().call.text() + (late.empty() ? "" : " for ranks" + late));
}

ncclResult_t Comm::failure() const {
  const ncclResult_t code = error_;
  return code == ncclInProgress ? ncclSuccess : code;
}

bool Comm::is_well() const { return !is_aborted_ && failure() == ncclSuccess && context_error() == cudaSuccess; }

bool Comm::wait(const Ready& ready) {
  while (is_well() && !ready()) nap();
  return is_well();
}

bool Comm::wait_for_ranks(const Ready& ready) {
  const auto begin = std::chrono::steady_clock::now();
  bool has_said = false;
  int looks = 0;
  return wait([&] {
    if (settings().tells_loss && ++looks % kLooksForLosses == 0) look_for_losses();
    if (!has_said && std::chrono::steady_clock::now() - begin > settings().patience) {
      has_said = true;
      say_who_is_late();
    }
    return ready();
  });
}

bool Comm::wait_in_host(const Ready& ready) {
  ++connecting_;
  int looks = 0;
  const bool is_well = wait([&] {
    if (settings().tells_loss && ++looks % kLooksForLosses == 0) look_for_losses();
    return ready();
  });
  --connecting_;
  return is_well;
}

bool Comm::connect(const Call& call) {
  if (environment("NCCL_RUNTIME_CONNECT") == "0") return true;
  const std::uint64_t kind = std::uint64_t{1} << std::hash<std::string_view>{}(call.name) % 64;
  mine().collectives |= kind;
  return wait_in_host([&] {
    for (int r = 0; r < size_; ++r) {
      if ((segment_.slot(r).collectives & kind) == 0) return false;
    }
    return true;
  });
}

bool Comm::connect(const std::vector<Message>& messages) {
  const auto bit = [](int rank) { return std::uint64_t{1} << rank % 64; };
  for (const Message& each : messages) (each.is_send ? mine().sends : mine().receives) |= bit(each.peer);
  return wait_in_host([&] {
    return std::ranges::all_of(messages, [&](const Message& each) {
      const Slot& peer = segment_.slot(each.peer);
      return ((each.is_send ? peer.receives : peer.sends) & bit(rank_)) != 0;
    });
  });
}

bool Comm::meet() {
  if (is_aborted_) return false;  // else others would take this rank for one that has come
  const std::uint32_t round = segment_.round();
  ++mine().meetings;
  if (segment_.here().fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    segment_.here() = 0;
    segment_.round() = round + 1;
    return is_well();
  }
  return wait_for_ranks([&] { return segment_.round() != round; });
}

ncclResult_t Comm::join() {
  if (!segment_) {
    fail(ncclSystemError, "no memory to meet in");
    return error_;
  }
  mine().pid = getpid();
  put_text(mine().place, "GPU " + std::to_string(device_) + " of " + environment("NCCL_HOSTID").value_or(host_name()));
  mine().call = {0, "CommInitRank"};
  if (!meet()) return ncclInternalError;
  if (const std::string shared = shared_gpu(); !shared.empty()) fail(ncclInvalidUsage, shared);
  meet();  // until then all read the slots
  return is_aborted_ ? ncclInternalError : failure();
}

std::string Comm::shared_gpu() {
  constexpr int kFirstThatShares = 23003;
  if (shown_version() >= kFirstThatShares && environment("NCCL_MULTI_RANK_GPU_ENABLE") == "1") return {};
  for (int r = 0; r < size_; ++r) {
    for (int other = 0; other < r; ++other) {
      const std::string place = segment_.slot(r).place;
      if (place != segment_.slot(other).place) continue;
      return "Duplicate GPU detected : rank " + std::to_string(other) + " and rank " + std::to_string(r) + " both on " +
             place;
    }
  }
  return {};
}

std::vector<int> Comm::members(int color) {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (segment_.slot(r).color == color) ranks.push_back(r);
  }
  std::ranges::stable_sort(ranks, {}, [&](int r) { return segment_.slot(r).key; });
  return ranks;
}

std::optional<Part> Comm::split(int color, int key) {
  const std::uint64_t number = submitted_++;
  std::optional<Part> part;
  if (wait([&] { return done_ == number; })) {
    mine().call = {number, "CommSplit"};
    mine().color = color;
    mine().key = key;
    if (meet() && color != NCCL_SPLIT_NOCOLOR) {
      const std::vector<int> ranks = members(color);
      const auto me = std::ranges::find(ranks, rank_);
      if (me == ranks.begin()) put_text(mine().segment, new_segment());
      part = {"", static_cast<int>(me - ranks.begin()), static_cast<int>(ranks.size())};
      if (meet()) part->segment = segment_.slot(ranks.front()).segment;
    } else {
      meet();
    }
    meet();  // until then the slots hold this split
  }
  ++done_;
  return part;
}

ncclResult_t Comm::start(std::function<ncclResult_t()> call) {
  if (const ncclResult_t code = error_; code != ncclSuccess) {
    return refuse(code == ncclInProgress ? ncclInvalidUsage : code,
                  code == ncclInProgress ? "the call before is still in progress" : "after a failure: " + words());
  }
  if (is_blocking_) return call();
  error_ = ncclInProgress;
  std::thread([this, call = std::move(call)] {
    current_device() = device_;
    const auto most = static_cast<unsigned>(settings().delay.count());
    if (most > 0) std::this_thread::sleep_for(std::chrono::microseconds(std::random_device()() % most));
    const ncclResult_t result = call();
    if (result != ncclSuccess && words().empty()) fail(result, last_words());
    ncclResult_t in_progress = ncclInProgress;
    error_.compare_exchange_strong(in_progress, result);
  }).detach();
  return ncclInProgress;
}

/// A name for the operations that a graph runs in the order of their capture (1).
const void* Comm::order() const {
  constexpr int kFirstThatOrders = 22600;
  static const std::array<char, 64> devices{};
  const bool orders_all = shown_version() >= kFirstThatOrders && environment("NCCL_LAUNCH_ORDER_IMPLICIT") == "1";
  return orders_all ? static_cast<const void*>(&devices.at(static_cast<std::size_t>(device_))) : this;
}

ncclResult_t Comm::enqueue(cudaStream_t stream, std::function<void(std::uint64_t)> body) {
  const auto make = [this, in_graph = in_graphs_, body = std::move(body)]() -> Op {
    const std::uint64_t number = submitted_++;
    return [this, body, number] {
      if (wait([&] { return done_ == number; })) body(number);
      // Seen from outside, a failure is work that does not end.
      while (!is_aborted_ && !is_well() && context_error() == cudaSuccess) nap();
      while (done_ != number && context_error() == cudaSuccess) nap();
      ++done_;
    };
  };
  const cudaError_t code = submit(stream, device_, make, order());
  if (code == cudaSuccess) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, std::string("Cuda failure '") + cudaGetErrorString(code) + "'");
}

void Comm::finish() {
  while (connecting_ > 0) nap();
  while (error_ == ncclInProgress) nap();
  while (done_ != submitted_ && context_error() == cudaSuccess) nap();
  while (in_graphs_.use_count() > 1) nap();
}

}  // namespace mn::stand_in
