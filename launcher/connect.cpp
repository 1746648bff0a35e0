#include "connect.hpp"

#include <chrono>
#include <optional>

#include <sys/stat.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

#include "check_failed.hpp"
#include "facts/addresses.hpp"
#include "place/pmi.hpp"
#include "place/pmix_library.hpp"

namespace mn::launcher {
namespace {

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

std::chrono::milliseconds patience_of(const Variables& variables) {
  const int seconds = variables.number("MN_LAUNCH_TIMEOUT").value_or(60);
  if (seconds < 1) throw UsageError("MN_LAUNCH_TIMEOUT is " + std::to_string(seconds) + ": give seconds, at least 1");
  return std::chrono::seconds(seconds);
}

void reject_torchrun(const Variables& variables) {
  if (!variables.has("TORCHELASTIC_RUN_ID")) return;
  throw UsageError(
      "torchrun started this process, so that all its workers have one rank; start mnlaunch in "
      "torchrun's stead (srun mnlaunch python SCRIPT), or unset TORCHELASTIC_RUN_ID if torchrun has ended");
}

/// Returns the launcher to ask instead where the server does not answer.
Launcher connect_to_pmix(Connection& connection, Variables& variables) {
  try {
    connection.session = std::make_unique<PmixSession>(pmix_libraries(variables), patience_of(variables));
    variables.set("PMIX_MCA_gds", "hash");
    return Launcher::kPmix;
  } catch (const PmixError& error) {
    connection.no_exchange = error.what();
  }
  const Launcher other = launcher_without_server(variables);
  if (other == Launcher::kNone) {
    throw PmixError(connection.no_exchange +
                    "; unset the PMIX_* variables of a launcher that has ended, or start mnlaunch "
                    "directly under one that lives");
  }
  return other;
}

/// A PMI server knows the nodes, and passes rank 0's address on.
void connect_to_pmi(Connection& connection, const Variables& variables) {
  PmiSession server(variables.needed("PMI_FD", "a PMI server"));
  const auto job =
      server.read_job(variables.needed("PMI_RANK", "a PMI server"), variables.needed("PMI_SIZE", "a PMI server"));
  connection.here = find_placement(variables, Launcher::kPmi, job);
  if (!job || connection.here.inter_size == 1) return;
  const auto address = server.share_address(connection.here, own_address(routed_interfaces(), resolve(host_name())),
                                            patience_of(variables));
  if (!address) throw CheckFailed("not all ranks arrived; start mnlaunch on every rank, and look for hung nodes", true);
  connection.master_address = *address;
}

}  // namespace

Connection connect_to_launcher(Variables& variables) {
  reject_torchrun(variables);
  Connection connection;
  Launcher launcher = innermost_launcher(variables, is_socket);
  if (launcher == Launcher::kPmix) launcher = connect_to_pmix(connection, variables);
  if (launcher == Launcher::kPmi) {
    connect_to_pmi(connection, variables);
  } else {
    const auto& session = connection.session;
    connection.here = find_placement(variables, launcher, session ? std::optional(session->job()) : std::nullopt);
  }
  if (!connection.session && connection.no_exchange.empty()) {
    connection.no_exchange = connection.here.source + " gives the launchers no way to exchange facts";
  }
  return connection;
}

}  // namespace mn::launcher
