#include "start/start.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/cpus.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/net/interfaces.hpp>

#include "bind/affinity.hpp"
#include "bind/cpu_set.hpp"
#include "bind/memory.hpp"
#include "exchange/group.hpp"
#include "facts/find_files.hpp"
#include "facts/ports.hpp"
#include "start/exports.hpp"
#include "start/labels.hpp"

namespace mn::launcher {
namespace {

/// The active port of the card `nic`, such as "mlx5_0:1"; empty if the card is not an InfiniBand or RoCE device.
std::string port_of_nic(const std::string& nic, const std::filesystem::path& root) {
  const auto port = first_active_port(nic, root);
  return port ? nic + ":" + std::to_string(*port) : "";
}

Equipment equipment_of(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  const Binding& binding = outcome.binding;
  const auto& root = rank.surroundings.root;
  return {.gpus = view_gpus(outcome.gpus, binding, rank.here.intra_rank, options.one_gpu_visible),
          .threads = threads_within(binding.cores, rank.here.intra_size, cpu_quota(root)),
          .bind_threads = options.bind_threads,
          .nic = binding.nic,
          .nic_port = options.bind_nic ? port_of_nic(binding.nic, root) : "",
          // Programs connect to rank 0 first, and round 2 has tested its address.
          .route = rank.here.inter_size > 1 ? interface_toward(outcome.master.address) : ""};
}

std::string name_of(const Peer& peer, const Group& group, const Roster& roster) {
  if (peer.kind == Peer::Kind::kMember) {
    return "rank " + std::to_string(roster.ranks_here.at(static_cast<std::size_t>(peer.id))) + " on host " +
           group.hosts[static_cast<std::size_t>(group.node)];
  }
  const bool is_below = peer.kind == Peer::Kind::kChild;
  const int node = is_below ? peer.id : group.is_leader() ? kNodeTree.parent_of(group.node) : group.node;
  return "the first rank on host " + group.hosts[static_cast<std::size_t>(node)];
}

/// Whether this rank reports the loss of `peer`. Every rank reports lost ranks below it in the exchange's tree. If the
/// root is lost, the leader of node 1 reports; in a job on one node, the second rank.
bool reports(const Peer& peer, const Group& group) {
  if (peer.kind != Peer::Kind::kUp) return true;
  return group.nodes > 1 ? group.is_leader() && group.node == 1 : group.intra_rank == 1;
}

/// The self test would replace a device by a file, or wait for the reader of a pipe.
void require_file(const std::string& option, const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (path.empty() || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw UsageError(option + ": " + path + " is not a file");
}

/// Returns a descriptor of a file in memory with `report`, which may be too long for an environment variable.
int file_with(const std::string& report) {
  const int file = memfd_create("mn-doctor-report", 0);
  if (file < 0) throw Error(with_errno("--doctor: cannot keep the report of the checks in memory", errno));
  File("/proc/self/fd/" + std::to_string(file), File::Mode::kUpdate).write_at(0, std::as_bytes(std::span(report)));
  return file;
}

/// Keeps the connections open across exec, and lists them in a variable for mn::Job, which may start behind a script.
void leave_links(const std::vector<KeptLink>& links, Variables& variables) {
  if (links.empty()) return;
  std::vector<StartLink> left;
  for (const auto& kept : links) {
    if (fcntl(kept.link.fd, F_SETFD, 0) == 0) left.push_back(kept.link);
  }
  variables.set(kStartLinksVariable, start_links_text(left));
}

/// Replaces this process by `program`. The first of `arguments` is the program's name. Throws ProgramError.
[[noreturn]] void replace_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  const Variables& environment) {
  // exec would drop the text in the buffers.
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment.all()) settings.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (auto& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execve(program.c_str(), argv.data(), envp.data());
  throw ProgramError("cannot run " + program.string() + ": " + std::strerror(errno), kExitCannotRun);
}

/// Replaces this process by the self test, and passes on the checks' `report`. Throws Error.
[[noreturn]] void become_self_test(const ThisRank& rank, const std::string& report, Variables& variables) {
  const std::string path = path_of_self_test();
  const auto program = find_program(path, rank.surroundings.folder, executable_path().parent_path(), "");
  std::vector<std::string> arguments = {path};
  if (rank.options.json) arguments.emplace_back("--json");
  for (const auto& [option, file] : {std::pair("--save", rank.options.save),
                                     {"--against", rank.options.against},
                                     {"--history", rank.options.history}}) {
    if (!file.empty()) arguments.insert(arguments.end(), {option, file});
  }
  if (rank.here.rank == 0) variables.set("MN_DOCTOR_REPORT_FD", std::to_string(file_with(report)));
  replace_process(program, arguments, variables);
}

}  // namespace

PreparedStart prepare_start(const ThisRank& rank, const Outcome& outcome) {
  const Options& options = rank.options;
  if (options.bind || !options.cpu_map.empty()) set_affinity_of_this_thread(outcome.binding.cpus);
  if (options.bind_memory) bind_memory_near(outcome.binding.cpus);
  PreparedStart prepared;
  if (!options.output.empty()) {
    prepared.output = open_output(options.output, rank.here.rank, rank.surroundings.variables);
  }
  return prepared;
}

void start(const ThisRank& rank, const Outcome& outcome, const PreparedStart& prepared) {
  const Options& options = rank.options;
  Variables variables = rank.surroundings.variables;
  add_exports(variables, rank.here, outcome.master, equipment_of(rank, outcome));
  if (prepared.output) {
    redirect_output(*prepared.output, options.output, options.append, variables);
  }
  if (options.label) label_output(std::to_string(rank.here.rank) + ": ");
  leave_links(prepared.links, variables);
  if (options.doctor) become_self_test(rank, outcome.verdict.report, variables);
  replace_process(rank.surroundings.program, rank.surroundings.arguments, variables);
}

std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster) {
  std::vector<KeptLink> links;
  for (auto& [peer, socket] : exchange.duplicate_connections()) {
    StartLink link{.fd = socket.get(),
                   .inode = inode_of_socket(socket.get()),
                   .reports = reports(peer, exchange.group()),
                   .name = name_of(peer, exchange.group(), roster)};
    links.push_back({std::move(socket), std::move(link)});
  }
  return links;
}

std::string path_of_self_test() { return (executable_path().parent_path() / "mnlaunch-selftest").string(); }

void require_time_of_doctor(const Variables& variables) {
  constexpr const char* kName = "MN_DOCTOR_TIMEOUT";
  const int seconds = variables.number(kName).value_or(1);
  if (seconds < 1) throw UsageError(kName + (" is " + std::to_string(seconds)) + ": give seconds, at least 1");
}

void require_files_of_doctor(const Options& options) {
  require_file("--save", options.save);
  require_file("--history", options.history);
  try {
    if (!options.against.empty()) static_cast<void>(parse_json(read_file(options.against), options.against));
  } catch (const Error& error) {
    throw UsageError(std::string("--against: ") + error.what());
  }
}

}  // namespace mn::launcher
