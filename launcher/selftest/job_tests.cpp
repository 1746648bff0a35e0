#include "selftest/job_tests.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/nccl_versions.hpp>

#include "facts/ports.hpp"
#include "facts/surroundings.hpp"
#include "selftest/gpu_tests.hpp"
#include "selftest/link_tests.hpp"
#include "selftest/report_text.hpp"
#include "selftest/thresholds.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;

/// The least bandwidth of a pair of nodes with the job's GPU model and network; 0 if either is unknown.
double least_bandwidth_mb_s(const json& report) {
  const GpuFigures* figures = figures_of(report.value("gpu", ""));
  const double rate = report.value("fabric_gbit_s", 0.0);
  if (figures == nullptr || rate <= 0) return 0;
  return kOfFabricByMpi * std::min(rate, figures->fabric_gbit_s) * 1000 / 8;
}

json document_of(const std::vector<Link>& links, const std::vector<std::string>& hosts) {
  json pairs = json::array();
  for (const auto& link : links) {
    pairs.push_back({{"from", hosts[static_cast<std::size_t>(link.pair.first)]},
                     {"to", hosts[static_cast<std::size_t>(link.pair.second)]},
                     {"answered", link.answered},
                     {"latency_us", link.latency_us},
                     {"bandwidth_mb_s", link.bandwidth_mb_s}});
  }
  return pairs;
}

/// Collective. A message goes once around all ranks, each rank adds its number, and rank 0 checks the sum.
std::string test_ring(Communicator& comm) {
  std::vector<std::int64_t> token = {0};
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  if (comm.size() == 1) return "one rank only";
  if (comm.rank() != 0) comm.recv(token, previous);
  token[0] += comm.rank();
  comm.send(token, next);
  if (comm.rank() == 0) comm.recv(token, previous);
  const std::int64_t expected = std::int64_t{comm.size()} * (comm.size() - 1) / 2;
  return comm.rank() != 0 || token[0] == expected ? "passed" : "FAILED: the ring's sum is " + std::to_string(token[0]);
}

std::string test_allreduce(Communicator& comm) {
  std::int32_t wrong = 0;
  for (const std::size_t count : {1UL, 1027UL, 1UL << 18}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = term(i, comm.rank());
    comm.allreduce(values);
    for (std::size_t i = 0; i < count; ++i) wrong += values[i] != sum_of_terms(i, comm.size());
  }
  std::vector<std::int32_t> total = {wrong};
  comm.allreduce(total);
  return total[0] == 0 ? "passed" : "FAILED: " + std::to_string(total[0]) + " wrong sums over all ranks";
}

class SelfTest {
 public:
  SelfTest(Communicator& comm, Report& report, Watchdog& timer, std::chrono::milliseconds patience)
      : comm_(comm), report_(report), timer_(timer), patience_(patience) {
    json kind = json::object();
    const json document = report.document();
    for (const char* key : {"gpu", "fabric_gbit_s"}) {
      if (document.contains(key)) kind[key] = document.at(key);
    }
    kind_ = comm_.bcast_obj(kind);
    hosts_ = comm_.topology().hosts;
    if (comm_.rank() == 0) hosts_ = launcher_names(document.at("placement"), hosts_);
  }

  void run(const std::string& gpu_problem) {
    // Reported first: a GPU that CUDA does not see makes the tests below fail, too.
    report_gpu_problems(gpu_problem);
    timer_.begin("the ring of messages");
    report_.set("ring", test_ring(comm_));
    timer_.begin("the allreduce");
    report_.set("allreduce", test_allreduce(comm_));
    test_links();
    timer_.begin("the test of MPI with memory of GPUs");
    gather("cuda_aware_mpi", comm_.intra_rank() == 0 ? probe_cuda_aware(comm_.device()) : "");
    timer_.begin("the copies to the GPUs");
    test_copies();
    timer_.begin("the allreduce of NCCL");
    test_gpu_allreduce();
    timer_.begin("the report");
    // Last, so that the network ports' counters include errors in the traffic of the tests above.
    const bool counts = comm_.intra_rank() == 0;
    gather("ports", counts ? judge_ports(ports_before_, launcher::read_ports(hardware_)) : "", "watch");
  }

 private:
  void test_links() {
    const double least = least_bandwidth_mb_s(kind_);
    const auto links = measure_links(comm_, least, patience_ / 4, timer_);
    std::vector<std::string> hosts;
    for (int node = 0; node < comm_.inter_size(); ++node) {
      hosts.push_back(hosts_[static_cast<std::size_t>(comm_.topology().ranks_of(node).front())]);
    }
    report_.set("pairs", document_of(links, hosts));
    if (comm_.inter_size() == 1) return;
    std::vector<std::string> sentences;
    // One host of a slow link may be sound, so the advice is to watch both.
    for (const auto& fault : judge_links(hosts, links, least)) {
      sentences.push_back(fault.text);
      if (!fault.hosts.empty()) report_.blame("links", fault.hosts, fault.hosts.size() == 1 ? "isolate" : "watch");
    }
    report_.set("links", verdict_of(sentences));
  }

  void test_copies() {
    double here = 0;
    std::string result = "no GPU";
    const GpuFigures* figures = figures_of(kind_.value("gpu", ""));
    try {
      if (comm_.device().type == DeviceType::kCuda) {
        here = host_gpu_gb_s(comm_.device());
        const bool slow = figures != nullptr && here < figures->host_gpu_gb_s;
        result = slow ? "FAILED: copies to a GPU reach " + std::to_string(static_cast<int>(here)) + " GB/s, not " +
                            std::to_string(static_cast<int>(figures->host_gpu_gb_s))
                      : "passed";
      }
    } catch (const CommError& error) {
      result = std::string("FAILED: ") + error.what();
    }
    gather("host_gpu", result, "reboot");  // a reboot initializes the link to the GPU again
    gather_least("host_gpu_gb_s", here);
  }

  void test_gpu_allreduce() {
    const bool speaks = comm_.rank() == 0 && comm_.device().type == DeviceType::kCuda;
    const std::string faults = speaks ? nccl_faults(nccl_version()) : "";
    if (!faults.empty()) report_.add_finding(finding_of_nccl_faults(faults, hosts_));
    NcclResult nccl;
    try {
      nccl = test_nccl(comm_);
    } catch (const CommError& error) {
      nccl.result = std::string("FAILED: ") + error.what();
    }
    const GpuFigures* figures = figures_of(kind_.value("gpu", ""));
    // The table has figures for eight GPUs within one node.
    const bool comparable = figures != nullptr && comm_.inter_size() == 1 && comm_.size() == 8;
    if (comparable && nccl.result == "passed" && nccl.allreduce_gb_s < figures->allreduce_gb_s) {
      nccl.result = "FAILED: the sums are right, but slower than " +
                    std::to_string(static_cast<int>(figures->allreduce_gb_s)) + " GB/s";
    }
    gather("nccl_allreduce", nccl.result, "watch");
    gather_least("allreduce_gb_s", nccl.allreduce_gb_s);
  }

  void gather(const std::string& test, const std::string& result, const std::string& advice = "") {
    const auto results = comm_.gather_obj(result);
    if (comm_.rank() != 0) return;
    report_.set(test, combine(results, hosts_));
    const auto hosts = failed_hosts(results, hosts_);
    if (!advice.empty() && !hosts.empty()) report_.blame(test, hosts, advice);
  }

  /// Collective. Adds a finding for the hosts of all ranks that cannot use their GPU (`problem`).
  void report_gpu_problems(const std::string& problem) {
    const auto problems = comm_.gather_obj(problem);
    std::map<std::string, std::set<std::string>> hosts_of;
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      if (!problems[rank].empty()) hosts_of[problems[rank]].insert(hosts_[rank]);
    }
    for (const auto& [what, hosts] : hosts_of) report_.add_finding(finding_of_gpu_problem(what, hosts));
  }

  /// Collective. Reports each host's least figure. A rank that has not measured passes 0.
  void gather_least(const std::string& name, double here) {
    const auto values = comm_.gather_obj(json(here));
    std::map<std::string, double> least;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto figure = values[rank].get<double>();
      if (figure <= 0) continue;
      const auto [host, is_first] = least.emplace(hosts_[rank], figure);
      host->second = std::min(host->second, figure);
    }
    if (least.empty()) return;
    for (const auto& [host, figure] : least) report_.set_figure(host, name, figure);
    report_.set(name, std::ranges::min_element(least, {}, &decltype(least)::value_type::second)->second);
  }

  Communicator& comm_;
  Report& report_;
  Watchdog& timer_;
  std::chrono::milliseconds patience_;
  const std::filesystem::path hardware_ = launcher::hardware_root(environment("MN_HARDWARE_ROOT"));
  const std::vector<launcher::PortFacts> ports_before_ = launcher::read_ports(hardware_);
  json kind_;                       ///< rank 0's "gpu" and "fabric_gbit_s"
  std::vector<std::string> hosts_;  ///< by rank
};

constexpr std::size_t kTerms = 64;

}  // namespace

void test_job(Communicator& comm, const std::string& gpu_problem, Report& report, Watchdog& timer,
              std::chrono::milliseconds patience) {
  SelfTest(comm, report, timer, patience).run(gpu_problem);
}

float term(std::size_t i, int rank) { return static_cast<float>((i + static_cast<std::size_t>(rank)) % kTerms); }

float sum_of_terms(std::size_t i, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::size_t sum = ranks / kTerms * (kTerms * (kTerms - 1) / 2);
  for (std::size_t rank = ranks / kTerms * kTerms; rank < ranks; ++rank) sum += (i + rank) % kTerms;
  return static_cast<float>(sum);
}

}  // namespace mn::selftest
