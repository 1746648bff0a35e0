// The file rank-R is the sign of rank R: a JSON document with the job and its size, the number of rounds of
// work_together() that the rank has finished, whether lead() has returned on rank 0, and a state:
//
//   {"state": "planning", "beat": N}                     works on the plan; N changes each second
//   {"state": "waiting"}                                 waits for ranks that work on the plan
//   {"state": "failed", "what": TEXT, "exit_code": N}    the rank's part of the plan failed
//   {"state": "finished", "result": …}                   the rank's part is done
//
// (1) rename(2) replaces a file at once, so readers see a whole document.
// (2) A sign of another job, or of a job of another size, is ignored, so a killed run's sign does no harm.
// (3) finish() first writes this rank's sign, and then reads the signs of all ranks. So of two ranks the later rank
//     sees the earlier rank's sign, and the last rank sees all. If several ranks see all signs, the rank that removes
//     the file rank-last counts as the last; rank 0 makes this file at the start. (On NFS a client may remember that a
//     name is absent; rename(2) changes the folder, so the client looks the name up again.)
// (4) A rank waits for another rank only in follow(), and only while that rank's sign keeps changing.
#include "data/rank_board.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr const char* kLast = "rank-last";
constexpr auto kBeat = std::chrono::seconds(1);
// A rank that waits reads the other rank's sign again and again. These are the shortest and the longest pause between
// two reads. Each pause is an eighth longer than the previous, so a wait lasts at most about an eighth too long.
constexpr std::chrono::microseconds kShortestPause{2'000};
constexpr std::chrono::microseconds kLongestPause{200'000};

class RelayedError final : public Error {
 public:
  RelayedError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }
  [[nodiscard]] bool on_all_ranks() const noexcept override { return true; }

 private:
  int exit_code_;
};

bool has_failed(const json& sign) { return sign.value("state", "") == "failed"; }

void pass_on_failure(const json& sign) {
  if (has_failed(sign)) throw RelayedError(sign.at("what"), sign.at("exit_code"));
}

}  // namespace

RankBoard::RankBoard(std::filesystem::path folder, JobRank me, Patience patience)
    : folder_(std::move(folder)), me_(std::move(me)), patience_(patience) {
  std::error_code none;
  std::filesystem::remove(path_of(me_.rank), none);
  if (me_.rank == 0 && me_.size > 1) write_file(folder_ / kLast, "");
}

std::filesystem::path RankBoard::path_of(int rank) const { return folder_ / ("rank-" + std::to_string(rank)); }

void RankBoard::post(json sign) const {
  sign["job"] = me_.job;
  sign["size"] = me_.size;
  sign["led"] = led_;
  sign["rounds"] = rounds_;
  write_file(path_of(me_.rank), json_text(sign));
}

json RankBoard::sign_of(int rank) const {
  try {
    json sign = parse_json(read_file(path_of(rank)), "a sign of a rank");
    const bool ours = sign.value("job", "") == me_.job && sign.value("size", 0) == me_.size;
    return ours ? sign : json::object();
  } catch (const DataError&) {  // the file is absent
    return json::object();
  }
}

void RankBoard::lead(const std::function<void()>& plan) {
  work(plan);
  led_ = true;
  if (me_.size > 1) post({{"state", "waiting"}});
}

bool RankBoard::has_led() const {
  const json sign = sign_of(0);
  return sign.value("led", false) && !has_failed(sign);
}

void RankBoard::work_together(const std::function<void()>& part) {
  work(part);
  const std::int64_t rounds = ++rounds_;
  if (me_.size == 1) return;
  post({{"state", "waiting"}});
  for (int step = 1; step < me_.size; ++step) {
    const int rank = (me_.rank + step) % me_.size;
    follow(rank, [&] { return sign_of(rank).value("rounds", std::int64_t{0}) >= rounds; });
  }
}

void RankBoard::work_with_beat(const std::function<void()>& part) {
  std::mutex mutex;
  std::condition_variable_any wake;
  const std::jthread heartbeat([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (std::int64_t beat = 0; !stop.stop_requested(); ++beat) {
      try {
        post({{"state", "planning"}, {"beat", beat}});
      } catch (const Error&) {  // the next beat tries again
      }
      wake.wait_for(lock, stop, kBeat, [] { return false; });
    }
  });
  part();
}

void RankBoard::work(const std::function<void()>& part) {
  if (me_.size == 1) return part();
  const auto fail = [&](const std::string& what, int exit_code) {
    try {
      post({{"state", "failed"}, {"what", what}, {"exit_code", exit_code}});
      return true;
    } catch (const Error&) {  // the failure of `part` is more important
      return false;
    }
  };
  try {
    work_with_beat(part);
  } catch (const Error& error) {
    // If another rank has failed, rank 0 removes the plan, which may have caused this error. Then that rank's failure
    // is reported instead.
    for (int rank = 0; rank < me_.size; ++rank) {
      if (rank == me_.rank) continue;
      const json sign = sign_of(rank);
      if (has_failed(sign)) fail(sign.at("what"), sign.at("exit_code"));
      pass_on_failure(sign);
    }
    // fail() has written the error into this rank's sign, and rank 0 reports the error. All other ranks throw a
    // RelayedError, which is not reported again.
    if (fail(error.what(), error.exit_code()) && me_.rank > 0) throw RelayedError(error.what(), error.exit_code());
    throw;
  } catch (const std::exception& error) {
    fail(error.what(), 1);
    throw;
  }
}

void RankBoard::follow(int rank, const std::function<bool()>& is_done) {
  auto last_change = steady_clock::now();
  json last = json::object();
  for (auto pause = kShortestPause; !is_done(); pause = std::min(pause + pause / 8, kLongestPause)) {
    const json sign = sign_of(rank);
    pass_on_failure(sign);
    if (sign != last) last_change = steady_clock::now();
    last = sign;
    const auto limit = last.empty() ? patience_.until_begun : patience_.since_sign;
    if (steady_clock::now() - last_change > limit) {
      const std::string other = "rank " + std::to_string(rank);
      throw DataError(other + " of " + std::to_string(me_.size) + " gave no sign in " + folder_.string() + " for " +
                      std::to_string(limit.count() / 1000) + " s: do all ranks see that folder? See what " + other +
                      " says, then run the command again");
    }
    std::this_thread::sleep_for(pause);
  }
}

std::optional<std::vector<json>> RankBoard::finish(const json& result) {
  if (me_.size == 1) return std::vector{result};
  post({{"state", "finished"}, {"result", result}});
  std::vector<json> results(me_.size);
  results[me_.rank] = result;
  for (int step = 1; step < me_.size; ++step) {
    const int rank = (me_.rank + step) % me_.size;
    json sign = sign_of(rank);
    if (sign.value("state", "") != "finished") return std::nullopt;
    results[rank] = std::move(sign["result"]);
  }
  std::error_code none;
  if (!std::filesystem::remove(folder_ / kLast, none)) return std::nullopt;
  return results;
}

}  // namespace mn::data
