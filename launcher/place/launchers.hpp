/// The launchers that mnlaunch knows, innermost first: by what each is recognized, whether its server must be asked,
/// and how it places a rank.
///
/// Launchers nest (mpirun in a Slurm allocation, srun in a batch script), and each leaves its variables to its
/// children. The innermost one that is alive decides. Variables of the others are stale and ignored.
#pragma once

#include <optional>
#include <span>

#include "place/placement.hpp"

namespace mn::launcher {

/// How one launcher's ranks find their placement.
struct LauncherRow {
  Launcher launcher;
  /// Whether it started this process, where no row above it did.
  bool (*started)(const Signs&);
  /// Whether its variables leave open where the ranks are, so that its server must be asked.
  bool (*needs_server)(const Signs&);
  /// `server`: what the server says, where it was asked and answered. Throws UsageError if variables are incomplete or
  /// malformed, or where nothing tells which of two launchers is alive.
  Placement (*place)(const Signs&, const std::optional<ServerJob>& server);
};

/// Innermost first; the last row, a process without a launcher, matches every process.
[[nodiscard]] std::span<const LauncherRow> launchers();

/// The innermost live launcher.
[[nodiscard]] const LauncherRow& innermost_launcher(const Signs& signs);

/// The same among the rows that need no server, for a process whose PMIx server does not answer.
[[nodiscard]] const LauncherRow& launcher_without_server(const Signs& signs);

/// What row.place() says, checked. Throws UsageError.
[[nodiscard]] Placement find_placement(const LauncherRow& row, const Signs& signs,
                                       const std::optional<ServerJob>& server);

}  // namespace mn::launcher
