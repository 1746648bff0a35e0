// The live part of mnlaunch --doctor: do messages arrive, are sums right, how fast are the ways between the nodes?
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/ranks.hpp>
#include <mn/job/job.hpp>

#include "selftest/collectives.hpp"
#include "selftest/deadline.hpp"
#include "selftest/gpu.hpp"
#include "selftest/links.hpp"
#include "selftest/results.hpp"
#include "selftest/thresholds.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;

struct SelfTestOptions {
  bool json = false;
  std::string save;
  std::string against;
};

/// What mnlaunch hands over: findings, placement, kinds of hardware; empty where this was started alone.
json report_of_mnlaunch() {
  const auto file = environment_int("MN_DOCTOR_REPORT_FD");
  if (!file) return json::object();
  return parse_json(read_file("/proc/self/fd/" + std::to_string(*file)), "the report of mnlaunch's checks");
}

json placement_of(const Communicator& comm) {
  json rows = json::array();
  const auto& topology = comm.topology();
  std::vector<int> used(static_cast<std::size_t>(topology.inter_size), 0);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const int node = topology.nodes[r];
    rows.push_back({{"rank", rank},
                    {"host", topology.hosts[r]},
                    {"intra_rank", used[static_cast<std::size_t>(node)]++},
                    {"inter_rank", node}});
  }
  return rows;
}

/// The report as far as it has come, which the deadline's thread prints when a test hangs.
class Report {
 public:
  explicit Report(SelfTestOptions options) : options_(std::move(options)) {
    document_ = {{"findings", json::array()}, {"placement", json::array()}, {"self_test", json::object()}};
  }
  void take(const json& part) {
    const std::lock_guard lock(mutex_);
    document_.update(part);
  }
  void set(const std::string& test, const json& result) {
    const std::lock_guard lock(mutex_);
    document_["self_test"][test] = result;
  }
  [[nodiscard]] json document() const {
    const std::lock_guard lock(mutex_);
    return document_;
  }
  /// Of this process, once the report is out; no value before.
  [[nodiscard]] std::optional<int> status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  void set_status(int status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  /// Returns whether all is well.
  bool print() {
    json document = this->document();
    const bool healthy = !has_errors(document);
    document["healthy"] = healthy;
    document["advice"] = advice_of(document);
    if (!options_.save.empty()) write_file(options_.save, document.dump(2) + "\n");
    if (options_.json) {
      std::cout << document.dump(2) << std::endl;
    } else {
      std::cout << text_of(document) << (healthy ? "\nall is well" : "\nsomething is wrong: see above") << std::endl;
    }
    return healthy;
  }

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  json document_;
  std::optional<int> status_;
};

/// A GPU's kind and its node's network, by which pairs of nodes are judged; 0 where the table has no figure.
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

class SelfTest {
 public:
  SelfTest(Communicator& comm, Report& report, Deadline& deadline, std::chrono::milliseconds patience)
      : comm_(comm), report_(report), deadline_(deadline), patience_(patience) {
    json kind = json::object();
    const json document = report.document();
    for (const auto& [key, value] : document.items()) {
      if (key == "gpu" || key == "fabric_gbit_s") kind[key] = value;
    }
    kind_ = comm_.bcast_obj(kind);
  }

  void run() {
    deadline_.begin("the ring of messages");
    report_.set("ring", test_ring(comm_));
    deadline_.begin("the allreduce");
    report_.set("allreduce", test_allreduce(comm_));
    test_links();
    deadline_.begin("the test of MPI with memory of GPUs");
    gather("cuda_aware_mpi", comm_.intra_rank() == 0 ? probe_cuda_aware(comm_.device()) : "");
    deadline_.begin("the copies to the GPUs");
    test_copies();
    deadline_.begin("the allreduce of NCCL");
    test_gpu_allreduce();
    deadline_.begin("the report");
  }

 private:
  void test_links() {
    const double least = least_bandwidth_mb_s(kind_);
    const auto links = measure_links(comm_, least, patience_ / 4, deadline_);
    std::vector<std::string> hosts;
    for (int node = 0; node < comm_.inter_size(); ++node) {
      hosts.push_back(comm_.topology().hosts[static_cast<std::size_t>(comm_.topology().ranks_of(node).front())]);
    }
    report_.set("pairs", document_of(links, hosts));
    if (comm_.inter_size() > 1) report_.set("links", verdict_of(judge_links(hosts, links, least)));
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
    gather("host_gpu", result);
    gather_least("host_gpu_gb_s", here);
  }

  void test_gpu_allreduce() {
    NcclResult nccl;
    try {
      nccl = test_nccl(comm_);
    } catch (const CommError& error) {
      nccl.result = std::string("FAILED: ") + error.what();
    }
    const GpuFigures* figures = figures_of(kind_.value("gpu", ""));
    const bool comparable = figures != nullptr && comm_.inter_size() == 1 && comm_.size() == 8;
    if (comparable && nccl.result == "passed" && nccl.allreduce_gb_s < figures->allreduce_gb_s) {
      nccl.result = "FAILED: the sums are right, but slower than " +
                    std::to_string(static_cast<int>(figures->allreduce_gb_s)) + " GB/s";
    }
    gather("nccl_allreduce", nccl.result);
    gather_least("allreduce_gb_s", nccl.allreduce_gb_s);
  }

  void gather(const std::string& test, const std::string& result) {
    const auto results = comm_.gather_obj(result);
    if (comm_.rank() == 0) report_.set(test, combine(results, comm_.topology().hosts));
  }

  /// Of the ranks that have measured something.
  void gather_least(const std::string& name, double here) {
    double least = 0;
    for (const auto& value : comm_.gather_obj(json(here))) {
      const auto figure = value.get<double>();
      if (figure > 0) least = least > 0 ? std::min(least, figure) : figure;
    }
    if (least > 0) report_.set(name, least);
  }

  Communicator& comm_;
  Report& report_;
  Deadline& deadline_;
  std::chrono::milliseconds patience_;
  json kind_;  ///< of hardware, as rank 0 knows it
};

int run(Report& report, Deadline& deadline, const SelfTestOptions& options, std::chrono::milliseconds patience) {
  const auto comm = create_communicator("flat");
  const bool speaks = comm->rank() == 0;
  json earlier;
  if (speaks) {
    if (!options.against.empty()) earlier = parse_json(read_file(options.against), options.against);
    if (report.document().at("placement").empty()) report.take({{"placement", placement_of(*comm)}});
  }
  SelfTest(*comm, report, deadline, patience).run();
  bool healthy = true;
  if (speaks) {
    if (!options.against.empty()) report.set("against", verdict_of(changes_since(earlier, report.document())));
    healthy = report.print();
  }
  const int status = std::stoi(comm->bcast_obj(std::string(healthy ? "0" : "1")));
  report.set_status(status);  // a link that does not answer may hold up MPI_Finalize
  deadline.begin("MPI_Finalize");
  return status;
}

/// On the deadline's thread. Rank 0 prints what there is; the others wait for it to end them.
void give_up(Report& report, int rank, const std::string& part) {
  if (const auto status = report.status()) std::_Exit(*status);
  if (rank == 0) {
    report.set("deadline", "FAILED: " + part + " did not end in time; a node or link hangs (MN_DOCTOR_TIMEOUT)");
    report.print();
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  std::_Exit(1);
}

SelfTestOptions parse(const std::vector<std::string>& words) {
  SelfTestOptions options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--json") options.json = true;
    if (words[i] == "--save" && has_value) options.save = words[i + 1];
    if (words[i] == "--against" && has_value) options.against = words[i + 1];
  }
  return options;
}

std::chrono::milliseconds patience_of_user() {
  const auto seconds = environment_int("MN_DOCTOR_TIMEOUT").value_or(60);
  if (seconds < 1) throw UsageError("MN_DOCTOR_TIMEOUT is " + std::to_string(seconds) + ": give seconds, at least 1");
  return std::chrono::seconds(seconds);
}

/// What is known before MPI is up.
struct Preparation {
  SelfTestOptions options;
  std::chrono::milliseconds patience{};
  int rank = 0;
  json checks;  ///< rank 0: the report of mnlaunch
};

Preparation prepare(int argc, char** argv) {
  Preparation ready{parse({argv + 1, argv + argc}), patience_of_user(), 0, json::object()};
  ready.rank = rank_of_environment(environment).value_or(0);
  if (ready.rank == 0) ready.checks = report_of_mnlaunch();
  return ready;
}

int start(int argc, char** argv, const Preparation& ready) {
  Report report(ready.options);
  report.take(ready.checks);
  Deadline deadline(ready.patience, [&](const std::string& part) { give_up(report, ready.rank, part); });
  deadline.begin("MPI_Init");
  return run_job(argc, argv, [&](Job&) { return run(report, deadline, ready.options, ready.patience); });
}

}  // namespace
}  // namespace mn::selftest

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--cuda-probe") return mn::selftest::run_cuda_probe(argc, argv);
  std::optional<mn::selftest::Preparation> ready;
  try {
    ready = mn::selftest::prepare(argc, argv);
  } catch (const mn::Error& error) {
    std::cerr << "mnlaunch --doctor: " << error.what() << std::endl;
    return error.exit_code();
  }
  return mn::selftest::start(argc, argv, *ready);  // run_job reports what is thrown from here on
}
