#include "rounds/verdict.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <mn/core/json.hpp>

#include "bind/affinity.hpp"
#include "checks/checks.hpp"
#include "facts/report_text.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kBefore = "mnlaunch: ";  ///< begins each line

nlohmann::json rows_of(const JobFacts& job, const Options& options, const Placement& here) {
  auto rows = nlohmann::json::array();
  for (int node = 0; node < job.layout.node_count(); ++node) {
    const auto ranks = job.layout.ranks_of(node);
    const auto& bindings = job.bindings[static_cast<std::size_t>(node)];
    for (std::size_t i = 0; i < ranks.size() && i < bindings.size(); ++i) {
      const auto& gpus = job.rank(ranks[i]).resources.gpus;
      const GpuView view = view_gpus(gpus, bindings[i], static_cast<int>(i), options.one_gpu_visible);
      rows.push_back({{"rank", job.number(ranks[i])},
                      {"host", job.layout.hosts[static_cast<std::size_t>(node)]},
                      {"intra_rank", i},
                      {"inter_rank", job.is_part() ? nlohmann::json() : nlohmann::json(node)},
                      {"device", view.device()},
                      {"gpu", view.index < 0 ? "" : gpus[static_cast<std::size_t>(bindings[i].gpu)].bus_id},
                      {"cores", format_cpus(bindings[i].cpus)},
                      {"nic", bindings[i].nic},
                      {"source", here.source}});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.at("rank") < b.at("rank"); });
  return rows;
}

/// The name of a GPU model of the job, for the self test's thresholds; empty if it is unknown.
std::string first_gpu(const JobFacts& job) {
  for (const auto& node : job.nodes) {
    if (has_gpus(node)) return node.driver->gpus.front().name.value_or("");
  }
  return "";
}

/// The speed in Gbit/s of the slowest node's fastest active InfiniBand or RoCE port; 0 if a node has none.
double slowest_fabric(const JobFacts& job) {
  double slowest = std::numeric_limits<double>::max();
  for (const auto& node : job.nodes) {
    double fastest = 0;
    for (const auto& port : node.system.ports) {
      const bool is_active = is_fabric_port(port.name) && port.state == kActivePort && port.rate;
      if (is_active) fastest = std::max(fastest, std::strtod(port.rate->c_str(), nullptr));
    }
    slowest = std::min(slowest, fastest);
  }
  return job.nodes.empty() ? 0 : slowest;
}

bool lacks_program(const NodeFacts& node) { return !node.program.error.empty(); }

/// If a node lacks the program, keeps only the findings about the program, which may cause the others.
void keep_cause(const JobFacts& job, Findings& findings) {
  const auto is_program = [](const Finding& finding) { return finding.check == "program"; };
  if (!std::ranges::any_of(job.nodes, lacks_program) || std::ranges::none_of(findings, is_program)) return;
  std::erase_if(findings, [&](const Finding& finding) { return !is_program(finding); });
}

/// Adds to the report what the self test must know about the nodes (selftest/doctor_report.hpp).
void add_facts_for_doctor(nlohmann::json& document, const JobFacts& job, const Options& options) {
  document["gpu"] = first_gpu(job);
  document["fabric_gbit_s"] = slowest_fabric(job);
  document["skip"] = options.skip;
  document["warn"] = options.warn;
  auto& xids = document["xids"] = nlohmann::json::object();  // by host, the numbers of its GPUs' hardware errors
  auto& unread = document["without_kernel_log"] = nlohmann::json::array();
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const SystemFacts& system = job.nodes[node].system;
    for (const auto& error : system.xids) {
      xids[job.host(node)].push_back(std::atoi(error.substr(error.rfind(' ') + 1).c_str()));
    }
    if (system.kernel_log == false) unread.push_back(job.host(node));
  }
}

bool keeps_from_starting(const Finding& finding) {
  return finding.is_error && (finding.check == "mpi" || finding.check == "program" || finding.check == "unresolved");
}

int exit_code_of(const Findings& findings, CheckLevel level) {
  const bool error = std::ranges::any_of(findings, &Finding::is_error);
  return error || (level == CheckLevel::kStrict && !findings.empty()) ? kExitCheckFailed : 0;
}

}  // namespace

Verdict reject(const Findings& findings, const Options& options) {
  Verdict verdict{.exit_code = kExitCheckFailed, .output = "", .complaints = "", .report = ""};
  if (options.json) {
    verdict.output = json_text({{"findings", to_json(findings)}}, 2) + "\n";
  } else {
    verdict.complaints = findings_text(to_json(findings), kBefore);
  }
  return verdict;
}

Verdict decide(const JobFacts& job, const Options& options, const Placement& here, int program_exit) {
  Verdict verdict;
  const bool checked = options.check != CheckLevel::kOff || options.doctor;
  if (checked && program_exit != 0 && std::ranges::all_of(job.nodes, lacks_program)) {
    verdict.exit_code = program_exit;
    const std::string who = "rank " + std::to_string(here.rank) + " on " + job.layout.hosts[0] + ": ";
    verdict.complaints = "mnlaunch: " + (job.is_part() ? who : "") + job.nodes[0].program.error + "\n";
    return verdict;
  }
  Findings findings = checked ? run_checks(job) : Findings{};
  append(findings, check_cpu_map(job, options.cpu_map.size()));
  keep_cause(job, findings);
  verdict.exit_code = exit_code_of(findings, options.check);
  // Nodes that are not compared with each other decide alone, and would all print the same warnings.
  const bool has_rank_zero = job.number(0) == 0;
  if (!has_rank_zero && verdict.exit_code == 0) findings.clear();

  nlohmann::json document = {{"findings", to_json(findings)}};
  if (has_rank_zero && options.show) {
    document["placement"] = rows_of(job, options, here);
    if (!options.json) verdict.output = placement_text(document["placement"]);
  }
  if (options.doctor) {
    document["placement"] = rows_of(job, options, here);
    add_facts_for_doctor(document, job, options);
    verdict.report = json_text(document);
    // For the self test, only errors that keep its ranks from starting as one job forbid the start.
    verdict.exit_code = std::ranges::any_of(findings, keeps_from_starting) ? 1 : 0;
    // The self test's report contains the findings, too.
    if (verdict.exit_code == 0) return verdict;
  }
  if (options.json && has_rank_zero && (options.show || !findings.empty())) {
    verdict.output = json_text(document, 2) + "\n";
  } else {
    verdict.complaints = findings_text(document["findings"], kBefore);
  }
  return verdict;
}

}  // namespace mn::launcher
