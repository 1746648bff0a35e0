/// Whole jobs with threads as ranks, and a misbehaving rank.
#pragma once

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "simulated_job.hpp"

namespace mn::launcher::exchange_jobs {

using simulated::Ending;
using simulated::Job;
using std::chrono::milliseconds;

/// Long enough for threads without a CPU, short enough for a test.
inline constexpr milliseconds kShortPatience{2000};

/// A job with sound facts, on any number of nodes.
inline Job job_of(std::vector<int> nodes, milliseconds patience = milliseconds(60000)) {
  static std::atomic<int> number = 0;
  Job job;
  job.name = "exchange_jobs " + std::to_string(getpid()) + " " + std::to_string(number++);
  job.nodes = std::move(nodes);
  job.patience = patience;
  job.rank_facts = [](int) {
    RankFacts facts = healthy_job().ranks[0];
    facts.size.reset();
    facts.threads.reset();
    facts.resources.gpus.clear();
    return facts;
  };
  job.node_facts = [](int node) {
    NodeFacts facts = healthy_node(node);
    facts.driver.reset();
    facts.nccl.reset();
    return facts;
  };
  return job;
}

/// The lines of all ranks together.
inline std::vector<std::string> lines_of(const std::vector<Ending>& endings) {
  std::vector<std::string> lines;
  for (const auto& ending : endings) {
    if (!ending.text.empty()) lines.push_back(ending.text);
  }
  return lines;
}

inline void expect_exit(const std::vector<Ending>& endings, int exit_code, std::vector<int> but = {}) {
  for (std::size_t rank = 0; rank < endings.size(); ++rank) {
    if (std::ranges::find(but, static_cast<int>(rank)) != but.end()) continue;
    EXPECT_EQ(endings[rank].exit_code, exit_code) << "rank " << rank << ": " << endings[rank].text;
  }
}

using Fault = std::function<Ending(const std::function<void()>& wait_for_others)>;

/// Runs all ranks of `job` but `victim`, for which `fault` runs; `fault` may wait until all ranks have ended.
inline std::vector<Ending> run_with(const Job& job, int victim, const Fault& fault) {
  std::atomic<int> left = job.size() - 1;
  const auto wait = [&] {
    for (int now = left; now > 0; now = left) left.wait(now);
  };
  return simulated::run(0, job.size(), [&](int rank) {
    if (rank == victim) return fault(wait);
    Ending ending = simulated::end_of(job, rank);
    --left;
    left.notify_all();
    return ending;
  });
}

inline Ending never_comes(const std::function<void()>&) { return {}; }

/// Runs all cases at a time: they mostly wait.
template <typename Case>
void at_once(const std::vector<Case>& cases, const std::function<void(const Case&)>& run) {
  std::vector<std::thread> threads;
  for (const auto& each : cases) threads.emplace_back([&] { run(each); });
  for (auto& thread : threads) thread.join();
}

}  // namespace mn::launcher::exchange_jobs
