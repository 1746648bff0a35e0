// staging [--check]: simulates jobs whose nodes copy the files that they read from a file server to their own disks,
// and prints from which size of the data on that pays. --check: status 1 if the simulation contradicts what it is to
// show.
//
// 60 nodes train in step on samples of a file server that serves so many requests at a time, each at a rate of its
// own, so that all of them together have kSlots · kSlotRate. Each node reads its part of an epoch in runs of
// neighbors, so many at a time, from random files, as lanes do. It copies each file that it reads, in as many threads
// as it has ranks, each at its part of the node's rate. Nodes ask who has a copy by the real StageDirectory. Time goes
// in steps: in each, all requests of the server share its slots equally, and training goes as fast as the slowest
// node. A file is read from the copy as soon as that is whole. Page caches are left out: they hold what fits, with
// copies or without. This is a model: no file server, disk or network was measured.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include <mn/core/random.hpp>
#include <mn/data/stage_server.hpp>

namespace {

using mn::data::StageDirectory;
using mn::data::StageSource;

constexpr std::uint32_t kNodes = 60;
constexpr int kRanks = 8;           // of a node
constexpr int kSlots = 256;         // of the file server: requests at a time …
constexpr double kSlotRate = 40e6;  // … bytes/s of each
constexpr double kFileBytes = 256e6;
constexpr double kRunBytes = 112e6;  // 1,024 samples of 110 KB: a lane
constexpr int kRuns = 51;            // at a time on a node: 3,072 lanes on 60 nodes
constexpr int kReadsOfRank = 64;     // requests of a rank at a time, at most
constexpr double kDiskRate = 3e9;    // bytes/s of a node's disk
constexpr double kRetry = 1;         // seconds until a node that is to wait asks again

enum class Staging { kNone, kFromServer, kFromNodes };

struct Job {
  double data_bytes;
  double need;       // bytes/s that a node can train on
  double copy_rate;  // bytes/s that a node copies
  int epochs;
  Staging staging;
};

struct Outcome {
  double seconds = 0;
  double from_server = 0;         // bytes, by training and copying
  double copied_from_server = 0;  // bytes
  std::vector<double> epochs = {};
};

/// One thread that copies.
struct Copier {
  std::int64_t file = -1;    // −1: none
  double left = 0;           // bytes
  std::int64_t source = -1;  // node; −1: the server
};

struct Waiting {
  std::int64_t file;
  double when;
};

struct Node {
  std::vector<std::int64_t> runs = std::vector<std::int64_t>(kRuns);  // files in use
  std::vector<bool> has_copy, is_wanted;
  std::deque<std::int64_t> queue;
  std::deque<Waiting> waiting;
  std::vector<Copier> copiers = std::vector<Copier>(kRanks);
  int given = 0;        // copies that other nodes take from here
  double run_done = 0;  // part of the current runs
  double remote = 1;    // part of the samples that come from the server
  int requests = 0;     // of training, to the server
};

class Simulation {
 public:
  explicit Simulation(const Job& job)
      : job_(job),
        files_(std::max<std::int64_t>(static_cast<std::int64_t>(job.data_bytes / kFileBytes), 1)),
        nodes_(kNodes) {
    for (Node& node : nodes_) {
      node.has_copy.resize(files_);
      node.is_wanted.resize(files_);
      begin_runs(node);
    }
  }

  Outcome run() {
    const double node_bytes = job_.data_bytes / kNodes;  // of an epoch
    double done = 0, began = 0;
    while (std::ssize(outcome_.epochs) < job_.epochs) {
      begin_copies();
      const double share = share_of_slots();
      const double rate = train(share);
      copy(share);
      now_ += step_;
      done += rate * step_;
      for (; done >= node_bytes && std::ssize(outcome_.epochs) < job_.epochs; done -= node_bytes) {
        outcome_.epochs.push_back(now_ - began);
        began = now_;
      }
    }
    outcome_.seconds = now_;
    return outcome_;
  }

 private:
  void begin_runs(Node& node) {
    for (std::int64_t& file : node.runs) {
      file = static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(files_));
      if (job_.staging == Staging::kNone || node.is_wanted[file]) continue;
      node.is_wanted[file] = true;
      node.queue.push_back(file);
    }
  }

  void begin_copies() {
    for (std::uint32_t n = 0; n < kNodes; ++n) {
      for (Copier& copier : nodes_[n].copiers) {
        while (copier.file < 0 && begin_copy(n, copier)) {
        }
      }
    }
  }

  /// False if there is nothing to be begun.
  bool begin_copy(std::uint32_t n, Copier& copier) {
    Node& node = nodes_[n];
    std::int64_t file;
    if (!node.waiting.empty() && node.waiting.front().when <= now_) {
      file = node.waiting.front().file;
      node.waiting.pop_front();
    } else if (!node.queue.empty()) {
      file = node.queue.front();
      node.queue.pop_front();
    } else {
      return false;
    }
    StageSource source;
    if (job_.staging == Staging::kFromNodes) {
      const auto since =
          std::chrono::duration_cast<StageDirectory::Time::duration>(std::chrono::duration<double>(now_));
      source = directory_.ask(static_cast<std::uint64_t>(file), n, StageDirectory::Time(since));
    }
    const bool from_node = source.kind == StageSource::Kind::kNode;
    if (source.kind == StageSource::Kind::kWait ||
        (from_node && nodes_[source.node].given >= mn::data::StageServer::kMaxGiven)) {
      node.waiting.push_back({file, now_ + kRetry});
      return true;
    }
    if (from_node) ++nodes_[source.node].given;
    copier = {file, kFileBytes, from_node ? std::int64_t{source.node} : -1};
    return true;
  }

  /// Bytes/s of each request of the server.
  double share_of_slots() {
    int requests = 0;
    for (Node& node : nodes_) {
      const auto remote = std::ranges::count_if(node.runs, [&](std::int64_t file) { return !node.has_copy[file]; });
      node.remote = static_cast<double>(remote) / kRuns;
      // A node asks for no more than it trains on.
      const int wanted = static_cast<int>(job_.need * node.remote / kSlotRate) + (remote > 0 ? 1 : 0);
      node.requests = std::min(wanted, kRanks * kReadsOfRank);
      requests += node.requests;
      requests += static_cast<int>(
          std::ranges::count_if(node.copiers, [](const Copier& c) { return c.file >= 0 && c.source < 0; }));
    }
    return std::min(kSlotRate, kSlots * kSlotRate / std::max(requests, 1));
  }

  /// Bytes/s that each node trains on.
  double train(double share) {
    double rate = job_.need;
    for (const Node& node : nodes_) {
      if (node.remote > 0) rate = std::min(rate, node.requests * share / node.remote);
      if (node.remote < 1) rate = std::min(rate, kDiskRate / (1 - node.remote));
    }
    for (Node& node : nodes_) {
      outcome_.from_server += rate * node.remote * step_;
      node.run_done += rate * step_ / (kRuns * std::min(kRunBytes, job_.data_bytes / kNodes / kRuns));
      for (; node.run_done >= 1; node.run_done -= 1) begin_runs(node);
    }
    return rate;
  }

  void copy(double share) {
    for (std::uint32_t n = 0; n < kNodes; ++n) {
      for (Copier& copier : nodes_[n].copiers) {
        if (copier.file < 0) continue;
        const double rate = std::min(copier.source < 0 ? share : job_.copy_rate, job_.copy_rate / kRanks);
        if (copier.source < 0) outcome_.from_server += rate * step_, outcome_.copied_from_server += rate * step_;
        copier.left -= rate * step_;
        if (copier.left > 0) continue;
        nodes_[n].has_copy[copier.file] = true;
        if (copier.source >= 0) --nodes_[copier.source].given;
        if (job_.staging == Staging::kFromNodes) directory_.add(static_cast<std::uint64_t>(copier.file), n);
        copier = {};
      }
    }
  }

  Job job_;
  std::int64_t files_;
  std::vector<Node> nodes_;
  StageDirectory directory_;
  mn::SplitMix64 random_{1};
  double step_ = std::clamp(job_.data_bytes / (kSlots * kSlotRate) / 50, 0.25, 2.0);  // seconds
  double now_ = 0;
  Outcome outcome_;
};

Outcome simulate(const Job& job) { return Simulation(job).run(); }

/// The epoch after which a job with copies is ahead for good; 0: never.
std::size_t paid_after(const Outcome& with, const Outcome& without) {
  double ahead = 0;
  std::size_t epoch = 0;
  for (std::size_t e = 0; e < with.epochs.size(); ++e) {
    ahead += without.epochs[e] - with.epochs[e];
    if (ahead <= 0) epoch = 0;
    if (ahead > 0 && epoch == 0) epoch = e + 1;
  }
  return epoch;
}

void print_table(double need, double copy_rate) {
  constexpr int kEpochs = 90;
  std::printf("a node trains on %.0f MB/s, all together %.1f of what the server gives; it copies at most %.0f MB/s\n",
              need / 1e6, need * kNodes / (kSlots * kSlotRate), copy_rate / 1e6);
  std::printf(
      "  data GB | no copies: h, server TB | from the server: h, TB, ahead after | from nodes too: h, TB, ahead "
      "after\n");
  for (const double gb : {35.0, 140.0, 560.0, 2240.0}) {
    Outcome outcomes[3];
    for (const Staging staging : {Staging::kNone, Staging::kFromServer, Staging::kFromNodes}) {
      outcomes[static_cast<int>(staging)] = simulate({gb * 1e9, need, copy_rate, kEpochs, staging});
    }
    std::printf("  %7.1f | %8.2f %9.1f", gb, outcomes[0].seconds / 3600, outcomes[0].from_server / 1e12);
    for (const Outcome* with : {&outcomes[1], &outcomes[2]}) {
      std::printf(" | %8.2f %8.1f ", with->seconds / 3600, with->from_server / 1e12);
      const std::size_t epoch = paid_after(*with, outcomes[0]);
      epoch > 0 ? std::printf("epoch %3zu", epoch) : std::printf("    never");
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

/// What holds in any such simulation.
bool check() {
  const Job job{.data_bytes = 15e9, .need = 800e6, .copy_rate = 256e6, .epochs = 60, .staging = Staging::kFromNodes};
  Job others = job;
  others.staging = Staging::kFromServer;
  const double once = simulate(job).copied_from_server / job.data_bytes;
  const double often = simulate(others).copied_from_server / job.data_bytes;
  std::printf("copied from the server: %.2f of the data with nodes that help, %.2f without\n", once, often);
  return once > 0.9 && once < 1.1 && often > 10;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--check") == 0) return check() ? 0 : 1;
  for (const double need : {100e6, 400e6, 2200e6}) {
    for (const double rate : {256e6, 2000e6}) print_table(need, rate);
  }
  return 0;
}
