#include "cli/options.hpp"

#include <algorithm>
#include <type_traits>

#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

#include "checks/checks.hpp"
#include "cli/output_pattern.hpp"

namespace mn::launcher {
namespace {

std::string last_of(const OptionRow& row, const Words& values) {
  if (values.back().empty()) throw UsageError(std::string("--") + row.name + " is empty: give " + row.value);
  return values.back();
}

/// Returns the index of the last given value in the option's choices. Throws UsageError if it is not a choice.
std::size_t choice_of(const OptionRow& row, const Words& values) {
  const auto choices = split(row.value, '|');
  const auto chosen = std::ranges::find(choices, values.back());
  if (chosen != choices.end()) return static_cast<std::size_t>(chosen - choices.begin());
  throw UsageError(std::string("--") + row.name + " is \"" + values.back() + "\": use one of " + row.value);
}

/// Returns the names of checks in `lists` (separated by commas). Throws UsageError if a check does not exist.
Words checks_of(const OptionRow& row, const Words& lists) {
  const std::string option = std::string("--") + row.name;
  const Words known = check_names();
  Words names;
  for (const auto& list : lists) {
    for (const auto check : split(list, ',')) {
      if (check.empty()) throw UsageError(option + " \"" + list + "\" has an empty name");
      const std::string& name = names.emplace_back(check);
      if (std::ranges::find(known, name) != known.end()) continue;
      throw UsageError(option + " " + name + ": there is no such check; there are " + join(known));
    }
  }
  return names;
}

std::vector<CpuSet> cpu_map_of(const std::string& text) {
  std::vector<CpuSet> map;
  for (const auto list : split(text, ':')) {
    const auto cpus = parse_cpus_strictly(list);
    if (!cpus)
      throw UsageError("--cpu-map: \"" + std::string(list) + "\" is not a list of CPUs; write 0-7,64-71:8-15,72-79");
    map.push_back(*cpus);
  }
  return map;
}

int seconds_of(const std::string& text) {
  const int seconds = parse_rank(text).value_or(0);
  if (seconds < 1) throw UsageError("--timeout is \"" + text + "\": give seconds, at least 1");
  return seconds;
}

PortRange ports_of_option(const std::string& text) {
  const auto ends = split(text, '-');
  const auto first = parse_rank(std::string(ends.front()));
  const auto last = parse_rank(std::string(ends.back()));
  if (ends.size() != 2 || !first || !last || *first < 1024 || *last > 65535 || *first > *last) {
    throw UsageError("--ports is \"" + text + "\": give FIRST-LAST, from 1024 to 65535");
  }
  return {*first, *last};
}

/// Sets `kMember`: a bool to true if the option is a flag or has the second of two choices, a text to the last value.
template <auto kMember>
void set(Options& options, const OptionRow& row, const Words& values) {
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(options.*kMember)>, bool>) {
    options.*kMember = row.is_flag() || choice_of(row, values) == 1;
  } else {
    options.*kMember = last_of(row, values);
  }
}

constexpr OptionRow kOptions[] = {
    {"check", "off|warn|strict", "compare the nodes before the start (default: warn)",
     "Compare the nodes before PROGRAM starts. With warn, errors stop the job and warnings are printed; with strict, "
     "warnings stop it too; off compares nothing.",
     [](Options& options, const OptionRow& row, const Words& values) {
       constexpr CheckLevel kLevels[] = {CheckLevel::kOff, CheckLevel::kWarn, CheckLevel::kStrict};
       options.check = kLevels[choice_of(row, values)];
     }},
    {"skip", "NAME", "leave out the check NAME (repeatable)",
     "Leave out the check whose findings have NAME in brackets. May be given more than once, or with a list of names "
     "with commas between them.",
     [](Options& options, const OptionRow& row, const Words& values) { options.skip = checks_of(row, values); }},
    {"warn", "NAME", "make errors of the check NAME warnings (repeatable)",
     "Errors of the check NAME do not stop the job. May be given more than once, or with a list of names with commas "
     "between them.",
     [](Options& options, const OptionRow& row, const Words& values) { options.warn = checks_of(row, values); }},
    {"check-file", "PATH", "require an equal file PATH on all nodes (repeatable)",
     "The file PATH must exist and be equal on all nodes: its size, a hash of its two ends and, for a file with a "
     "middle that is not hashed, its time of change. May be given more than once.",
     [](Options& options, const OptionRow&, const Words& values) {
       options.check_files.assign(values.begin(), values.end());
     }},
    {"doctor", "", "run all checks and a live self test, and report",
     "Run all checks and a live self test: a ring of messages, reductions with known sums, latency and bandwidth "
     "between nodes, and probes of the GPUs. Prints a report; the exit status is 0 if all is well and 1 if not.",
     set<&Options::doctor>},
    {"save", "FILE", "with --doctor: write the report to FILE too",
     "With --doctor: rank 0 writes the report to FILE too, as JSON, for a later --against.", set<&Options::save>},
    {"against", "FILE", "with --doctor: compare with the report in FILE",
     "With --doctor: compare with the report that an earlier --save wrote to FILE. A figure that is more than a fifth "
     "worse is a failure.",
     set<&Options::against>},
    {"history", "FILE", "with --doctor: add a line for each host to FILE",
     "With --doctor: rank 0 appends a line for each host to FILE, as JSON: time, findings, verdict and figures. The "
     "report names the hosts that failed in several of their last ten runs.",
     set<&Options::history>},
    {"node-check", "", "check this node, for Slurm's health check and prolog",
     "Check this node alone, without PROGRAM and MPI, in at most two seconds: GPUs, network ports, memory, limits, "
     "file systems and clock. Prints a line for each finding. The exit status is 0 without a finding, 1 with one, and "
     "2 for wrong options. For Slurm's HealthCheckProgram and Prolog. --skip and --warn apply.",
     [](Options& options, const OptionRow&, const Words&) { options.action = Action::kNodeCheck; }},
    {"expect", "FILE", "with --node-check: this site's values, KEY=VALUE",
     "With --node-check: compare the node with FILE, whose lines are KEY=VALUE: gpus=4, memory-mib=500000, "
     "mount=/shared, and more.",
     set<&Options::expect>},
    {"timeout", "SECONDS", "patience with the other ranks (default: 60)",
     "Wait SECONDS for ranks that have not come or do not answer; then the job ends with a line that names them.",
     [](Options& options, const OptionRow& row, const Words& values) {
       options.timeout_s = seconds_of(last_of(row, values));
     }},
    {"ports", "FIRST-LAST", "listen on these TCP ports (default: 20000-31999)",
     "The launchers of the nodes, and rank 0 on MASTER_PORT, listen on TCP ports of this range, for clusters whose "
     "firewall opens no other. By default 20000-31999, or 8000-19999 if other processes have the ports of the first "
     "range.",
     [](Options& options, const OptionRow& row, const Words& values) {
       options.ports = {ports_of_option(last_of(row, values))};
     }},
    {"bind", "auto|none", "cores, GPU and NIC for each rank (default: auto)",
     "With auto, each rank gets cores of its own near its GPU, within the CPU mask that the scheduler gave it. With "
     "none, masks stay as they are.",
     [](Options& options, const OptionRow& row, const Words& values) { options.bind = choice_of(row, values) == 0; }},
    {"cpu-map", "LIST:LIST:...", "CPUs of each node's first rank, second, ...",
     "The CPUs of each node's first rank, of its second, and so on: 0-7,64-71:8-15,72-79. Overrides --bind.",
     [](Options& options, const OptionRow& row, const Words& values) {
       options.cpu_map = cpu_map_of(last_of(row, values));
     }},
    {"mem-bind", "none|local", "memory near the rank's cores alone (default: none)",
     "With local, all memory of a rank comes from the NUMA nodes of its cores, and the kernel ends a rank that needs "
     "more. With none, the kernel prefers near memory, and takes farther memory if near memory is full.",
     set<&Options::bind_memory>},
    {"bind-threads", "", "pin OpenMP threads: OMP_PLACES, OMP_PROC_BIND",
     "Export OMP_PLACES=cores and OMP_PROC_BIND=close, unless they are set: each OpenMP thread stays on one core. A "
     "thread that the program starts by itself after its first parallel region then shares the core of its parent.",
     set<&Options::bind_threads>},
    {"bind-nic", "", "export the nearest card: UCX_NET_DEVICES, NCCL_IB_HCA",
     "Export UCX_NET_DEVICES and NCCL_IB_HCA, unless they are set, so that UCX and NCCL use only the InfiniBand or "
     "RoCE card nearest to the rank's GPU.",
     set<&Options::bind_nic>},
    {"gpu-visibility", "all|one", "GPUs that a rank can see (default: all)",
     "With all, a rank sees every GPU of its job on the node, as NCCL needs for direct transfers, and MN_DEVICE names "
     "the rank's own. With one, CUDA_VISIBLE_DEVICES names only the rank's own GPU, MN_DEVICE is cuda:0, and "
     "LOCAL_RANK is 0.",
     set<&Options::one_gpu_visible>},
    {"oversubscribe-gpu", "", "allow ranks to share a GPU",
     "Allow more ranks than GPUs on a node; they share the GPUs in turn. Without it, that is an error, or a warning "
     "if mpiexec starts all ranks on one node.",
     set<&Options::oversubscribe_gpu>},
    {"output", "DIR|PATTERN", "write each rank's output to DIR/rank-0000.out, .err",
     "Write the standard output and error of rank N to DIR/rank-N.out and DIR/rank-N.err, N with four digits or more. "
     "A text with a % is a pattern of file names: %r is the rank, %4r the rank with four digits, %j the number of the "
     "job, %s the number of its step, %h the host, %t out or err (without %t both go to one file), and %% a percent "
     "sign. Folders are made where they do not exist. Later steps of a Slurm job and jobs that Slurm starts again "
     "append; so does a start that finds another process writing, and so do patterns that give several ranks one "
     "file.",
     [](Options& options, const OptionRow& row, const Words& values) {
       options.output = last_of(row, values);
       check_output_pattern(options.output);
     }},
    {"append", "", "with --output: append to existing files",
     "With --output: append to existing files. Without it, a first start empties them.", set<&Options::append>},
    {"label", "", "begin each line of output with the rank",
     "Begin each line of output with the number of the rank: \"3: epoch 1\". mnlaunch then stays as the parent of "
     "PROGRAM, passes signals on to it, and ends as it does.",
     set<&Options::label>},
    {"show", "", "print who runs where",
     "Print a table on rank 0: rank, host, rank in the node, number of the node, device, address of the GPU, cores, "
     "NIC and the source of the placement.",
     set<&Options::show>},
    {"dry-run", "", "do all but start the program; implies --show",
     "Do everything but start PROGRAM: print the table of --show and exit with 0. If PROGRAM is a batch script of "
     "Slurm and no launcher started mnlaunch, check the script instead, without submitting it: print a line for each "
     "thing that sbatch would reject or that would fail at the start, and exit with 1 if there is one.",
     [](Options& options, const OptionRow&, const Words&) { options.dry_run = options.show = true; }},
    {"json", "", "reports as one JSON document",
     "Print reports (--show, --doctor, findings) as one JSON document on rank 0.", set<&Options::json>},
    {"help", "", "print this help", "Print a summary of the options.",
     [](Options& options, const OptionRow&, const Words&) { options.action = Action::kHelp; }},
    {"version", "", "print the versions of mnlaunch and of its MPI",
     "Print the version of mnlaunch and of the MPI with which it was built.",
     [](Options& options, const OptionRow&, const Words&) {
       if (options.action == Action::kLaunch) options.action = Action::kVersion;
     }},
};

}  // namespace

std::span<const OptionRow> option_table() { return kOptions; }

const OptionRow* find_option(std::string_view name) {
  const auto row = std::ranges::find(kOptions, name, &OptionRow::name);
  return row == std::end(kOptions) ? nullptr : &*row;
}

}  // namespace mn::launcher
