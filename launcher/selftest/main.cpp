// The program mnlaunch-selftest, the part of mnlaunch --doctor that runs tests.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/job/job.hpp>

#include "selftest/doctor_report.hpp"
#include "selftest/gpu_tests.hpp"
#include "selftest/job_tests.hpp"
#include "selftest/report_text.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;

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

int run(Report& report, Watchdog& timer, const SelfTestOptions& options, std::chrono::milliseconds patience) {
  const OwnDevice own = device_of_this_rank();
  const auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = own.device});
  const bool speaks = comm->rank() == 0;
  json earlier;
  if (speaks) {
    if (!options.against.empty()) earlier = parse_json(read_file(options.against), options.against);
    if (report.document().at("placement").empty()) report.take({{"placement", placement_of(*comm)}});
  }
  test_job(*comm, own.problem, report, timer, patience);
  bool healthy = true;
  if (speaks) {
    if (!options.against.empty()) report.set("against", verdict_of(changes_since(earlier, report.document())));
    healthy = report.print();
  }
  const int status = std::stoi(comm->bcast_obj(std::string(healthy ? "0" : "1")));
  report.status = status;  // if MPI_Finalize hangs, give_up() exits with this status
  timer.begin("MPI_Finalize");
  return status;
}

/// Ends this process because a test hangs. If the report is already printed, only MPI_Finalize hangs. Otherwise rank 0
/// prints the results so far; the launcher should then end the other ranks within 5 s.
void give_up(Report& report, int rank, const std::string& part) {
  if (report.status != Report::kNotOut) std::_Exit(report.status);
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
    if (words[i] == "--history" && has_value) options.history = words[i + 1];
  }
  return options;
}

int start(int argc, char** argv) {
  const SelfTestOptions options = parse({argv + 1, argv + argc});
  const std::chrono::seconds patience(environment_int("MN_DOCTOR_TIMEOUT").value_or(60));
  const int rank = rank_of_environment(environment).value_or(0);
  Report report(options);
  if (rank == 0) report.take(report_of_mnlaunch());
  Watchdog timer(patience, [&](const std::string& part) { give_up(report, rank, part); });
  timer.begin("MPI_Init");
  return run_job(argc, argv, [&](Job&) { return run(report, timer, options, patience); });
}

}  // namespace
}  // namespace mn::selftest

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--cuda-probe") return mn::selftest::run_cuda_probe(argc, argv);
  try {
    return mn::selftest::start(argc, argv);  // run_job reports exceptions of the tests
  } catch (const mn::Error& error) {
    std::cerr << "mnlaunch --doctor: " + std::string(error.what()) + "\n";
    return error.exit_code();
  }
}
