#include <algorithm>
#include <utility>

#include <mn/core/exit_codes.hpp>
#include <mn/core/manual.hpp>

#include "cli/options.hpp"

namespace mn::launcher {
namespace {

std::string heading(const OptionRow& option) {
  return std::string("--") + option.name + (option.is_flag() ? "" : std::string(" ") + option.value);
}

constexpr const char* kUsage = "mnlaunch [options] [--] PROGRAM [ARG...]";
constexpr const char* kPurpose = "place, check and bind this rank, then become PROGRAM";
constexpr const char* kStarted =
    "Start it under srun, mpiexec or mpirun, once for each rank.\n"
    "mnlaunch supervise [options] -- srun ... starts a failed step again.";

constexpr std::size_t kScreenColumns = 80;

struct ExitStatus {
  int status;  ///< -1: any other status
  const char* meaning;

  [[nodiscard]] std::string text() const { return status < 0 ? "other" : std::to_string(status); }
};
constexpr ExitStatus kExitStatuses[] = {{1, "mnlaunch failed"},
                                        {kExitUsage, "usage"},
                                        {kExitCheckFailed, "failed check"},
                                        {kExitCannotRun, "cannot run PROGRAM"},
                                        {kExitNotFound, "PROGRAM not found"},
                                        {-1, "PROGRAM's"}};

constexpr const char* kExports[][2] = {
    {"RANK, WORLD_SIZE, MN_RANK, MN_SIZE", "this rank and the number of ranks"},
    {"LOCAL_RANK, LOCAL_WORLD_SIZE, MN_INTRA_RANK, MN_INTRA_SIZE", "rank and number of ranks on this node"},
    {"GROUP_RANK, GROUP_WORLD_SIZE, MN_INTER_RANK, MN_INTER_SIZE", "this node and the number of nodes"},
    {"MASTER_ADDR, MASTER_PORT", "address of rank 0 and a free port there; equal on all ranks"},
    {"MN_DEVICE", "cpu or cuda:K"},
    {"GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME",
     "the interface by which the nodes reach rank 0; set on several nodes, unless the user has set it"},
    {"OMP_NUM_THREADS", "the cores of this rank, unless the user has set it"},
};

}  // namespace

std::string help_text() {
  std::string text = std::string("usage: ") + kUsage + "\nmnlaunch: " + kPurpose + ".\n" + kStarted + "\n\n";
  for (const auto& option : option_table()) {
    std::string line = "  " + heading(option);
    line.resize(std::max<std::size_t>(line.size() + 1, 27), ' ');
    text += line + option.summary + "\n";
  }
  std::string line = "exit status:";
  for (const auto& each : kExitStatuses) {
    const std::string item = " " + each.text() + " " + each.meaning + (each.status < 0 ? "" : ",");
    if (line.size() + item.size() > kScreenColumns) text += std::exchange(line, "            ") + "\n";
    line += item;
  }
  return text + line + "\n";
}

std::string manual_page() {
  std::string page =
      ".TH MNLAUNCH 1\n.SH NAME\nmnlaunch \\- " + roff(kPurpose) + "\n.SH SYNOPSIS\n" + roff(kUsage) +
      "\n.SH DESCRIPTION\n" + roff(kStarted) +
      "\nmnlaunch finds the rank from the launcher that started it, compares the nodes with each other, binds "
      "the rank to cores and a GPU, exports variables for PROGRAM, and executes it. A PROGRAM with a "
      "slash in its name is a path relative to the current folder, any other is searched in PATH; "
      "mnlaunch's own folder comes last.\n"
      "If all is well, mnlaunch prints nothing.\n.SH OPTIONS\n";
  for (const auto& option : option_table()) page += manual_item(heading(option), option.details);
  page += ".SH EXIT STATUS\n";
  for (const auto& each : kExitStatuses) page += manual_item(each.text(), each.meaning);
  page += ".SH ENVIRONMENT\nExported to PROGRAM:\n";
  for (const auto& [names, meaning] : kExports) page += manual_item(names, meaning);
  page += ".PP\nRead by mnlaunch:\n" + manual_item("MNLAUNCH_OPTIONS", "options; the command line overrides them") +
          manual_item("MN_LAUNCH_TIMEOUT", "seconds, as for --timeout; --timeout overrides it");
  page += ".SH EXAMPLES\n.nf\nsrun mnlaunch jobs/mnist\nmpiexec \\-n 4 mnlaunch \\-\\-show python train.py\n.fi\n";
  return page;
}

}  // namespace mn::launcher
