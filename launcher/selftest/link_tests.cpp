#include "selftest/link_tests.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <mpi.h>

#include <mn/core/json.hpp>

#include "facts/json_fields.hpp"

namespace mn::selftest {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::size_t kSmallBytes = 8;
constexpr int kSmallTimes = 50;
constexpr std::size_t kLargeBytes = 32 << 20;
constexpr int kLargeTimes = 5;

/// The rank with which this rank exchanges messages, and the deadline for its answers.
class Partner {
 public:
  Partner(MPI_Comm comm, int rank, int tag, bool begins, Clock::time_point end)
      : comm_(comm), rank_(rank), tag_(tag), begins_(begins), end_(end) {}

  /// Returns the time, in seconds, of a message in one direction: the shortest of `times` measurements, because the
  /// node may have other work. No value if the partner does not answer in time.
  std::optional<double> one_way(std::size_t bytes, int times) {
    // If the partner does not answer in time, MPI may still write to the buffer.
    auto message = std::make_unique<std::vector<std::byte>>(bytes);
    bool answers = ping_pong(*message);  // not measured: MPI connects at the first message
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < times && answers; ++i) {
      const auto start = Clock::now();
      answers = ping_pong(*message);
      fastest = std::min(fastest, std::chrono::duration<double>(Clock::now() - start).count());
    }
    if (answers) return fastest / 2;
    static_cast<void>(message.release());
    return std::nullopt;
  }

 private:
  bool ping_pong(std::vector<std::byte>& message) { return transfer(begins_, message) && transfer(!begins_, message); }
  bool transfer(bool sends, std::vector<std::byte>& message) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int bytes = static_cast<int>(message.size());
    if (sends) MPI_Isend(message.data(), bytes, MPI_BYTE, rank_, tag_, comm_, &request);
    if (!sends) MPI_Irecv(message.data(), bytes, MPI_BYTE, rank_, tag_, comm_, &request);
    return wait(request);
  }
  bool wait(MPI_Request request) const {
    int done = 0;
    while (done == 0) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (done == 0 && Clock::now() > end_) return false;
    }
    return true;
  }

  MPI_Comm comm_;
  int rank_;
  int tag_;  ///< unique to each try, because messages of an earlier try may still arrive
  bool begins_;
  Clock::time_point end_;
};

class Links {
 public:
  Links(Communicator& comm, std::chrono::milliseconds patience, Watchdog& timer)
      : comm_(comm), patience_(patience), timer_(timer) {
    for (int node = 0; node < comm.inter_size(); ++node) leaders_.push_back(comm.topology().ranks_of(node).front());
  }

  void measure_rounds() {
    const auto rounds = rounds_of_pairs(comm_.inter_size());
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      begin("round " + std::to_string(round + 1) + " of " + std::to_string(rounds.size()));
      for (const auto& pair : rounds[round]) measure(pair, rounds[round].size() > 1);
    }
    gather();
  }

  /// Collective. Measures the slow pairs again, one by one. False if there was no slow pair.
  bool retry(double least_mb_s, bool is_first_time) {
    std::vector<Pair> pairs;
    if (comm_.rank() == 0) {
      pairs = pairs_to_retry(comm_.inter_size(), best(), least_mb_s);
      std::erase_if(pairs, [&](const Pair& pair) { return !is_first_time && !has_answered(pair); });
    }
    const json chosen = comm_.bcast_obj(launcher::json_fields::write(pairs));
    pairs.clear();
    launcher::json_fields::read(chosen, "the list of slow pairs", pairs);
    for (const auto& pair : pairs) {
      begin("a second try");
      measure(pair, false);
    }
    if (!pairs.empty()) gather();
    return !pairs.empty();
  }

  [[nodiscard]] std::vector<Link> best() const { return best_of_each_pair(all_); }

 private:
  [[nodiscard]] bool has_answered(const Pair& pair) const {
    return std::ranges::any_of(all_, [&](const Link& link) { return link.pair == pair && link.answered; });
  }

  void begin(const std::string& what) {
    ++tries_;
    timer_.begin("the test of the links between nodes, " + what);
    // Otherwise early pairs would measure while other nodes still exchange messages of the previous round.
    comm_.barrier();
  }

  void measure(const Pair& pair, bool at_once) {
    const int first = leaders_[static_cast<std::size_t>(pair.first)];
    const int second = leaders_[static_cast<std::size_t>(pair.second)];
    const bool is_first = comm_.rank() == first;
    if (!is_first && comm_.rank() != second) return;
    Partner partner(comm_.mpi_comm(), is_first ? second : first, tries_, is_first, Clock::now() + patience_);
    const auto latency = partner.one_way(kSmallBytes, kSmallTimes);
    const auto seconds = latency ? partner.one_way(kLargeBytes, kLargeTimes) : std::nullopt;
    // Without an answer, the second rank reports, too: the first rank may have died.
    if (is_first || !seconds) {
      mine_.push_back({pair, seconds.has_value(), latency.value_or(0) * 1e6,
                       seconds ? static_cast<double>(kLargeBytes) / *seconds / 1e6 : 0, at_once});
    }
  }

  void gather() {
    for (const auto& part : comm_.gather_obj(launcher::json_fields::write(std::exchange(mine_, {})))) {
      launcher::json_fields::read(part, "the links of a rank", all_);
    }
  }

  Communicator& comm_;
  std::chrono::milliseconds patience_;
  Watchdog& timer_;
  int tries_ = 0;
  std::vector<int> leaders_;  ///< first rank of each node
  std::vector<Link> mine_;
  std::vector<Link> all_;  ///< on rank 0, from all nodes
};

}  // namespace

std::vector<Link> measure_links(Communicator& comm, double least_mb_s, std::chrono::milliseconds patience,
                                Watchdog& timer) {
  Links links(comm, patience, timer);
  links.measure_rounds();
  // A pair may be slow by chance, even several times. Each retry() tries at most 32 pairs.
  const int max_tries = 3 + comm.inter_size() / 32;
  for (int time = 0; time < max_tries && links.retry(least_mb_s, time == 0); ++time) continue;
  return links.best();
}

}  // namespace mn::selftest
