#include "launch.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "bind/binding.hpp"
#include "checks/findings.hpp"
#include "exchange.hpp"
#include "exports.hpp"
#include "facts/facts.hpp"
#include "collect.hpp"
#include "verdict.hpp"
#include "facts/network.hpp"
#include "facts/addresses.hpp"
#include "node_share.hpp"
#include "place/placement.hpp"
#include "place/pmi.hpp"
#include "place/pmix.hpp"
#include "facts/find_program.hpp"
#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kSelfTest = "mnlaunch-selftest";

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

/// What all the comparing comes to for this rank.
struct Outcome {
  int exit_code = 0;  ///< not 0: don't start the program
  Master master;
  Binding binding;
  std::vector<VisibleGpu> gpus;
  Verdict verdict;  ///< rank 0's, and that of a rank that judges alone
};

constexpr auto kRankZeroFirst = std::chrono::milliseconds(500);

class Launch {
 public:
  Launch(const Options& options, Variables variables) : options_(options), variables_(std::move(variables)) {}

  int run() {
    look_for_program();
    connect();
    Outcome outcome = read_json("what the ranks told each other",
                                [&] { return session_ && here_.size > 1 ? compare() : check_alone(); });
    session_.reset();
    // Only after the exchange, so that no output is under way while mpiexec serves the ranks' PMIx calls.
    std::cout << outcome.verdict.output << std::flush;
    std::cerr << outcome.verdict.complaints << std::flush;
    if (outcome.exit_code != 0 || options_.dry_run) return leave(outcome.exit_code);
    if (surroundings_.program.empty()) throw ProgramError(surroundings_.program_error, program_exit_);
    start(outcome);
  }

 private:
  void look_for_program() {
    surroundings_.variables = variables_;
    surroundings_.root = variables_.get("MN_HARDWARE_ROOT").value_or("/");
    surroundings_.check_files = options_.check_files;
    surroundings_.arguments = options_.program;
    if (options_.doctor && surroundings_.arguments.empty()) surroundings_.arguments = {kSelfTest};
    std::error_code error;
    surroundings_.folder = std::filesystem::current_path(error);
    if (surroundings_.arguments.empty()) return;  // --dry-run needs none
    try {
      surroundings_.program = find_program(surroundings_.arguments[0], surroundings_.folder,
                                           executable_path().parent_path(), variables_.get("PATH").value_or(""));
    } catch (const ProgramError& failure) {
      surroundings_.program_error = failure.what();
      program_exit_ = failure.exit_code();
    }
  }

  /// At the first bad exit mpiexec kills the rest, so rank 0 goes first: its line must come out.
  [[nodiscard]] int leave(int exit_code) const {
    if (exit_code != 0 && here_.rank != 0) std::this_thread::sleep_for(kRankZeroFirst);
    return exit_code;
  }

  /// Finds the launcher and this rank's place; a PMIx server that does not answer leaves the other variables.
  void connect() {
    if (variables_.has("TORCHELASTIC_RUN_ID")) {
      throw UsageError(
          "torchrun started this process, so that all its workers have one place; start mnlaunch in "
          "torchrun's stead (srun mnlaunch python SCRIPT), or unset TORCHELASTIC_RUN_ID if torchrun has ended");
    }
    Launcher launcher = innermost_launcher(variables_, is_socket);
    if (launcher == Launcher::kPmix) {
      try {
        session_ = std::make_unique<PmixSession>(pmix_libraries(variables_), patience());
        variables_.set("PMIX_MCA_gds", "hash");
      } catch (const PmixError& error) {
        no_exchange_ = error.what();
        launcher = launcher_without_server(variables_);
        if (launcher == Launcher::kNone) {
          throw PmixError(no_exchange_ +
                          "; unset the PMIX_* variables of a launcher that has ended, or start mnlaunch "
                          "directly under one that lives");
        }
      }
    }
    if (launcher == Launcher::kPmi) {
      place_by_pmi();
    } else {
      here_ = place(variables_, launcher, session_ ? std::optional(session_->job()) : std::nullopt);
    }
    if (!session_ && no_exchange_.empty()) no_exchange_ = here_.source + " gives the launchers no way to talk";
  }

  /// A PMI server knows the nodes, and passes rank 0's address on.
  void place_by_pmi() {
    PmiSession server(variables_.needed("PMI_FD", "a PMI server"));
    const auto job =
        server.read_job(variables_.needed("PMI_RANK", "a PMI server"), variables_.needed("PMI_SIZE", "a PMI server"));
    here_ = place(variables_, Launcher::kPmi, job);
    if (!job || here_.inter_size == 1) return;
    const auto address =
        server.share_address(here_, own_address(routed_interfaces(), resolve(host_name())), patience());
    if (!address)
      throw CheckError("not all ranks arrived; start mnlaunch on every rank, and look for hung nodes", true);
    master_address_ = *address;
  }

  [[nodiscard]] bool is_compared() const { return options_.check != CheckLevel::kOff || options_.doctor; }
  [[nodiscard]] bool is_leader() const { return here_.intra_rank == 0; }

  [[nodiscard]] std::chrono::milliseconds patience() const {
    const int seconds = variables_.number("MN_LAUNCH_TIMEOUT").value_or(60);
    if (seconds < 1) throw UsageError("MN_LAUNCH_TIMEOUT is " + std::to_string(seconds) + ": give seconds, at least 1");
    return std::chrono::seconds(seconds);
  }

  /// Three meetings of all ranks: addresses (where there are several nodes), facts, verdict.
  Outcome compare() {
    Exchange exchange(*session_, here_);
    std::optional<Listener> listener;
    std::optional<Marker> marker;  // until all nodes have looked for it
    Facts hello;
    if (is_leader()) {
      listener.emplace();
      hello = {{"network", network_facts(host_name())}, {"port", listener->port()}};
      if (here_.rank == 0) hello["master_port"] = free_port_of_job(here_.job, is_free_port);
      if (here_.rank == 0 && is_compared() && here_.inter_size > 1) {
        marker.emplace(output_folder(surroundings_),
                       std::to_string(getpid()) + "-" + std::to_string(hello["port"].get<int>()));
        hello["marker"] = marker->name();
      }
      exchange.tell("hello", hello);
    }
    if (here_.inter_size > 1) exchange.meet();
    const double time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const std::string marked = here_.inter_size > 1 ? exchange.hear(0, "hello").value("marker", "") : "";
    exchange.tell("rank", rank_facts(here_, surroundings_));
    if (is_leader()) exchange.tell("node", facts_of_this_node(exchange, hello["network"], time, marked));
    exchange.meet();

    Outcome outcome;
    if (here_.rank == 0) {
      outcome.verdict = judge_all(exchange);
      exchange.tell("verdict", outcome.verdict.exit_code);
    }
    exchange.meet();
    outcome.exit_code = exchange.hear(0, "verdict").get<int>();
    take_share(outcome, node_share(exchange, here_.inter_rank));
    const Facts first = exchange.hear(0, "hello");
    outcome.master.port = first.at("master_port").get<int>();
    outcome.master.address = here_.inter_size == 1 ? "127.0.0.1" : first.at("network").at("address").get<std::string>();
    return outcome;
  }

  Facts facts_of_this_node(const Exchange& exchange, const Facts& network, double time, const std::string& marked) {
    Facts facts = node_facts(surroundings_, is_compared());
    facts["host"] = host_name();
    facts["network"] = network;
    facts["time"] = time;
    facts["slurm_pmix"] = is_slurm_pmix(here_.job);
    if (here_.inter_size > 1) facts["network"]["failures"] = failed_connections(neighbours(exchange), kConnectPatience);
    if (!marked.empty()) {
      facts["system"]["output"]["shared"] = std::filesystem::exists(output_folder(surroundings_) / marked);
    }
    limit_size(facts);
    return facts;
  }

  /// Rank 0's node, where all must connect to, and the next one, so that each node is tried by another.
  std::vector<Neighbour> neighbours(const Exchange& exchange) const {
    std::vector<int> nodes = {0};
    const int next = (here_.inter_rank + 1) % here_.inter_size;
    if (next != 0) nodes.push_back(next);
    std::vector<Neighbour> others;
    for (const int node : nodes) {
      if (node == here_.inter_rank) continue;
      const Facts hello = exchange.hear(here_.layout->ranks_of(node).front(), "hello");
      others.push_back({here_.layout->hosts[static_cast<std::size_t>(node)],
                        hello.at("network").at("address").get<std::string>(), hello.at("port").get<int>()});
    }
    return others;
  }

  /// On a single machine without a scheduler nobody could ask for more GPUs: its ranks share them, with a warning.
  [[nodiscard]] bool may_share_gpus() const {
    const bool by_slurm = here_.launcher == Launcher::kSlurm || is_slurm_pmix(here_.job);
    return options_.oversubscribe_gpu || (here_.inter_size == 1 && !by_slurm);
  }

  NodeShare node_share(const Exchange& exchange, int node) const {
    const auto ranks = here_.layout->ranks_of(node);
    NodeShare share;
    share.node = exchange.hear(ranks.front(), "node");
    for (const int rank : ranks) share.ranks.push_back(exchange.hear(rank, "rank"));
    bind(share, {.bind_cores = options_.bind, .oversubscribe_gpu = may_share_gpus()});
    return share;
  }

  void take_share(Outcome& outcome, const NodeShare& share) const {
    const auto me = static_cast<std::size_t>(here_.intra_rank);
    outcome.binding = share.bindings[me];
    outcome.gpus = resources_of(share.ranks[me]).gpus;
  }

  Verdict judge_all(const Exchange& exchange) const {
    JobFacts job{.launcher = here_.launcher,
                 .layout = *here_.layout,
                 .nodes = {},
                 .ranks = {},
                 .bindings = {},
                 .gpu_sharing_is_meant = options_.oversubscribe_gpu};
    job.ranks.resize(here_.layout->nodes.size());
    for (int node = 0; node < here_.inter_size; ++node) {
      NodeShare share = node_share(exchange, node);
      const auto ranks = here_.layout->ranks_of(node);
      for (std::size_t i = 0; i < ranks.size(); ++i) job.ranks[static_cast<std::size_t>(ranks[i])] = share.ranks[i];
      job.nodes.push_back(std::move(share.node));
      job.bindings.push_back(std::move(share.bindings));
    }
    return judge(job, options_, here_, program_exit_);
  }

  /// Without an exchange a rank sees its own node only and takes its neighbours to be like itself.
  Outcome check_alone() {
    NodeShare share;
    share.node = node_facts(surroundings_, is_compared());
    share.node["host"] = host_name();
    share.node["slurm_pmix"] = is_slurm_pmix(here_.job);
    share.ranks.assign(static_cast<std::size_t>(here_.intra_size), rank_facts(here_, surroundings_));
    bind(share, {.bind_cores = options_.bind && !has_own_mask(share.ranks[0]), .oversubscribe_gpu = may_share_gpus()});
    Outcome outcome;
    take_share(outcome, share);
    if (has_own_mask(share.ranks[0])) outcome.binding.cores = static_cast<int>(outcome.binding.cpus.size());

    JobFacts job{.launcher = here_.launcher,
                 .layout = Layout{{0}, {host_name()}},
                 .nodes = {share.node},
                 .ranks = {share.ranks[0]},
                 .bindings = {{outcome.binding}},
                 .gpu_sharing_is_meant = options_.oversubscribe_gpu};
    job.ranks[0]["size"] = 1;
    outcome.verdict = judge(job, options_, here_, program_exit_);
    outcome.exit_code = outcome.verdict.exit_code;
    outcome.master = {guess_master_address(), port_of_job(here_.job)};
    if (here_.size == 1) outcome.master.port = free_port_of_job(here_.job, is_free_port);
    if (outcome.exit_code == 0) say_not_compared();
    return outcome;
  }

  /// Whether the scheduler made the mask for this rank alone.
  [[nodiscard]] bool has_own_mask(const Facts& rank) const {
    const int wanted = variables_.number("SLURM_CPUS_PER_TASK").value_or(0);
    return static_cast<int>(resources_of(rank).mask.size()) <= wanted;
  }

  /// Empty if the launcher does not tell where rank 0 is.
  [[nodiscard]] std::string guess_master_address() const {
    if (here_.inter_size == 1) return "127.0.0.1";
    if (!master_address_.empty()) return master_address_;
    if (here_.layout) return here_.layout->hosts.front();
    if (const auto nodes = variables_.get("SLURM_JOB_NODELIST")) return hosts_of_list(*nodes).at(0);
    return here_.inter_rank == 0 ? own_address(routed_interfaces(), resolve(host_name())) : "";
  }

  void say_not_compared() const {
    if (here_.rank != 0 || here_.inter_size == 1 || options_.check == CheckLevel::kOff) return;
    std::cerr << "mnlaunch: note: " << no_exchange_
              << "; the nodes were not compared (srun --mpi=pmix and Open MPI's mpiexec make that possible)"
              << std::endl;
  }

  [[noreturn]] void start(const Outcome& outcome) {
    const Binding& binding = outcome.binding;
    std::string device = "cpu";
    if (binding.gpu >= 0) {
      const auto& gpu = outcome.gpus[static_cast<std::size_t>(binding.gpu)];
      device = "cuda:" + std::to_string(options_.one_gpu_visible ? 0 : binding.gpu);
      if (options_.one_gpu_visible) variables_.set("CUDA_VISIBLE_DEVICES", gpu.uuid);
    }
    if (options_.bind) set_affinity_of_this_thread(binding.cpus);
    add_exports(variables_, here_, outcome.master, device, binding.cores);
    if (!options_.output.empty()) redirect_output(options_.output, here_.rank);
    if (options_.doctor) start_self_test(outcome.verdict.report);
    become(surroundings_.program, surroundings_.arguments, variables_);
  }

  [[noreturn]] void start_self_test(const std::string& report) {
    const auto program = find_program(kSelfTest, surroundings_.folder, executable_path().parent_path(), "");
    std::vector<std::string> arguments = {kSelfTest};
    if (options_.json) arguments.emplace_back("--json");
    if (here_.rank == 0) variables_.set("MN_DOCTOR_REPORT", report);
    become(program, arguments, variables_);
  }

  static constexpr std::chrono::milliseconds kConnectPatience{2000};

  const Options& options_;
  Variables variables_;
  Surroundings surroundings_;
  int program_exit_ = 0;
  std::unique_ptr<PmixSession> session_;
  std::string no_exchange_;  ///< why the nodes can't be compared
  Placement here_;
  std::string master_address_;  ///< where the launcher's server passed it on
};

}  // namespace

int launch(const Options& options, Variables variables) { return Launch(options, std::move(variables)).run(); }

}  // namespace mn::launcher
