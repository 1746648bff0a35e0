// Jobs of random layouts under any launcher; a rank is slow, cannot start, dies or never comes: all ranks leave with an
// equal code, a single line has the reason, and no rank hangs. MN_RANDOM_JOBS is their number (100); a failure names
// the job's seed.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "captured.hpp"
#include "launcher/place/derive_rank.hpp"
#include "simulated_job.hpp"

namespace mn::launcher {
namespace {

using simulated::Ending;
using simulated::Job;
using std::chrono::milliseconds;

enum class Fault { kNone, kSlow, kCannotStart, kDies, kNeverComes };

bool ends_silently(Fault fault) { return fault == Fault::kDies || fault == Fault::kNeverComes; }

/// The job's launcher, by variables and server.
enum class Starter { kSlurmPmix, kSlurmPmi2, kSlurmAlone, kHydra, kFlux, kOpenMpi };
constexpr unsigned kStarters = 6;

struct RandomJob {
  Job job;
  Fault fault = Fault::kNone;
  Starter starter = Starter::kSlurmPmix;
  int victim = 0;
};

/// What srun sets: nodes have the numbers of `job.nodes`.
Variables step_of(const Job& job, int rank) {
  std::vector<int> counts(static_cast<std::size_t>(job.node_count()), 0);
  std::string gtids;
  int local = 0;
  for (int other = 0; other < job.size(); ++other) {
    ++counts[static_cast<std::size_t>(job.node_of(other))];
    if (job.node_of(other) != job.node_of(rank)) continue;
    gtids += (gtids.empty() ? "" : ",") + std::to_string(other);
    if (other < rank) ++local;
  }
  std::string list;
  for (const int count : counts) list += (list.empty() ? "" : ",") + std::to_string(count);
  const std::string hosts = counts.size() == 1 ? "vn1" : "vn[1-" + std::to_string(counts.size()) + "]";
  return captured::step({rank, local, job.node_of(rank), gtids}, hosts, list, job.size(), "arbitrary");
}

ServerJob server_of(const Job& job, int rank) {
  ServerJob server{"10616833", rank, job.nodes, {}};
  for (const int node : job.nodes) server.hosts.push_back("vn" + std::to_string(node + 1));
  return server;
}

Variables variables_of(Starter starter, const Job& job, int rank) {
  const auto is_here = [&](int other) { return job.node_of(other) == job.node_of(rank); };
  std::vector<int> ranks(job.nodes.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto local_size = static_cast<int>(std::ranges::count_if(ranks, is_here));
  const auto local = static_cast<int>(std::count_if(ranks.begin(), ranks.begin() + rank, is_here));
  if (starter == Starter::kHydra) return captured::hydra(Variables(), rank, job.size(), local, local_size);
  if (starter == Starter::kFlux) return captured::flux(rank, job.size(), local);
  if (starter == Starter::kOpenMpi) return captured::with_open_mpi(Variables(), rank, job.size(), local, local_size);
  Variables step = step_of(job, rank);
  if (starter == Starter::kSlurmPmix) return captured::with_pmix(step, rank);
  if (starter == Starter::kSlurmPmi2) {
    step.set("PMI_RANK", std::to_string(rank));
    step.set("PMI_SIZE", std::to_string(job.size()));
    step.set("PMI_FD", "6");
  }
  return step;
}

Launcher launcher_of(Starter starter) {
  if (starter == Starter::kHydra || starter == Starter::kFlux) return Launcher::kPmi;
  return starter == Starter::kSlurmPmix || starter == Starter::kOpenMpi ? Launcher::kPmix : Launcher::kSlurm;
}

/// As mnlaunch finds it.
Placement placement_under(Starter starter, const Job& job, int rank) {
  const Variables variables = variables_of(starter, job, rank);
  const Signs signs = read_signs(variables, [](int) { return true; });
  const LauncherRow& row = innermost_launcher(signs);
  EXPECT_EQ(row.launcher, launcher_of(starter));
  const bool asks = row.needs_server(signs);
  Placement here = find_placement(row, signs, asks ? std::optional(server_of(job, rank)) : std::nullopt);
  EXPECT_EQ(here.rank, rank);
  EXPECT_EQ(here.size, job.size());
  EXPECT_EQ(here.inter_size, job.node_count());
  if (here.hosts.empty()) here.hosts = {"vn1"};
  return here;
}

/// Without GPUs, with a program of the launcher's MPI.
NodeFacts node_under(Starter starter, int node) {
  NodeFacts facts = healthy_node(node);
  facts.slurm_pmix = starter == Starter::kSlurmPmix;
  facts.has_pmi = starter != Starter::kSlurmPmix;  // srun --mpi=pmi2
  facts.program.mpi = launcher_of(starter) == Launcher::kPmix ? "Open MPI" : "MPICH";
  facts.driver.reset();
  facts.nccl.reset();
  return facts;
}

RankFacts any_rank(int) {
  RankFacts facts = healthy_job().ranks[0];
  facts.size.reset();
  facts.threads.reset();
  facts.resources.gpus.clear();
  return facts;
}

/// Up to 8 nodes with as many ranks each, equal or not, in any order.
std::vector<int> random_layout(std::mt19937& random, bool equal) {
  const int node_count = 1 + static_cast<int>(random() % 8);
  const auto most = 1 + static_cast<unsigned>(random() % 4);
  std::vector<int> counts(static_cast<std::size_t>(node_count), static_cast<int>(most));
  for (int& count : counts) count = equal ? count : 1 + static_cast<int>(random() % most);
  auto nodes = simulated::in_blocks(counts);
  std::ranges::shuffle(nodes, random);
  return nodes;
}

RandomJob random_job(unsigned seed) {
  std::mt19937 random(seed);
  RandomJob made;
  made.fault = static_cast<Fault>(random() % 5);
  // Unequal numbers of ranks are a finding of their own.
  const bool is_compared = !ends_silently(made.fault);
  made.job.nodes = random_layout(random, is_compared);
  made.job.name = "random_jobs_test " + std::to_string(getpid()) + " " + std::to_string(seed);
  made.job.patience = milliseconds(made.fault == Fault::kNeverComes ? 2000 : 60000);
  made.starter = static_cast<Starter>(random() % kStarters);
  made.job.node_facts = [starter = made.starter](int node) { return node_under(starter, node); };
  made.job.rank_facts = any_rank;
  if (made.job.size() == 1 && !is_compared) made.fault = Fault::kNone;
  made.victim = static_cast<int>(random() % static_cast<unsigned>(made.job.size()));
  std::vector<Placement> placements;
  for (int rank = 0; rank < made.job.size(); ++rank) {
    placements.push_back(placement_under(made.starter, made.job, rank));
  }
  made.job.placement = [placements](int rank) { return placements[static_cast<std::size_t>(rank)]; };
  return made;
}

/// Takes part in the first round, and ends as a killed process does.
Ending dies_after_arriving(const Job& job, int rank) {
  const Options options;
  Group group = simulated::group_of(job, rank);
  const ThisRank self{
      .options = options, .surroundings = {}, .program_exit = 0, .here = simulated::placement_of(job, group, rank)};
  try {
    Exchange exchange(std::move(group));
    static_cast<void>(arrive(exchange, self, true, [](Arrival&) {}));
  } catch (const Error&) {
    return {};
  }
  return {};
}

std::vector<Ending> run(const RandomJob& made) {
  const Job& job = made.job;
  return simulated::run(0, job.size(), [&](int rank) {
    const bool is_victim = rank == made.victim;
    if (is_victim && made.fault == Fault::kNeverComes) return Ending{};
    if (is_victim && made.fault == Fault::kDies) return dies_after_arriving(job, rank);
    if (is_victim && made.fault == Fault::kSlow) std::this_thread::sleep_for(milliseconds(200));
    if (is_victim && made.fault == Fault::kCannotStart) {
      Job broken = job;
      broken.prepare = [](int) { throw UsageError("no"); };
      return simulated::end_of(broken, rank);
    }
    return simulated::end_of(job, rank);
  });
}

int expected_code(Fault fault) {
  if (fault == Fault::kNone || fault == Fault::kSlow) return 0;
  return fault == Fault::kCannotStart ? kExitUsage : kExitCheckFailed;
}

bool loses_root(const RandomJob& made) {
  return ends_silently(made.fault) && simulated::group_of(made.job, made.victim).is_root();
}

/// How many may speak: a single line; if the nodes lose the root, a line on each node.
int most_speakers(const RandomJob& made) {
  if (made.fault == Fault::kNone || made.fault == Fault::kSlow) return 0;
  return loses_root(made) ? made.job.node_count() : 1;
}

void check(unsigned seed) {
  const RandomJob made = random_job(seed);
  const auto endings = run(made);
  const bool victim_ends = !ends_silently(made.fault);
  const int code = expected_code(made.fault);
  std::string who = "seed " + std::to_string(seed) + ", fault " + std::to_string(static_cast<int>(made.fault)) +
                    " of rank " + std::to_string(made.victim) + " under starter " +
                    std::to_string(static_cast<int>(made.starter)) + ", nodes";
  for (const int node : made.job.nodes) who += " " + std::to_string(node);
  std::string said;
  int speakers = 0;
  for (std::size_t rank = 0; rank < endings.size(); ++rank) {
    if (static_cast<int>(rank) == made.victim && !victim_ends) continue;
    const auto& text = endings[rank].text;
    EXPECT_EQ(endings[rank].exit_code, code) << who << ": rank " << rank << ": " << text;
    const bool may_speak = rank == 0 || (made.victim == 0 && !victim_ends) || loses_root(made);
    EXPECT_TRUE(text.empty() || may_speak) << who << ": rank " << rank << ": " << text;
    EXPECT_LE(std::ranges::count(text, '\n'), 1) << who << ": rank " << rank << ": " << text;
    speakers += text.empty() ? 0 : 1;
    said += text;
  }
  EXPECT_GE(speakers, code == 0 ? 0 : 1) << who;
  EXPECT_LE(speakers, most_speakers(made)) << who << ": " << said;
}

TEST(RandomJobsTest, AllRanksLeaveWithOneCodeAndOneLine) {
  const char* text = std::getenv("MN_RANDOM_JOBS");
  const unsigned count = text == nullptr ? 100 : static_cast<unsigned>(std::atoi(text));
  std::atomic<unsigned> next = 0;
  std::vector<std::thread> threads;  // most of the time goes to waiting
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (unsigned seed = next++; seed < count; seed = next++) check(seed);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace mn::launcher
