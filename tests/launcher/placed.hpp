/// mnlaunch's placement under given variables, and expectations.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/place/derive_rank.hpp"

namespace mn::launcher {

inline bool open_socket(int) { return true; }
inline bool no_socket(int) { return false; }

inline const LauncherRow& row_of(Launcher launcher) {
  return *std::ranges::find(launchers(), launcher, &LauncherRow::launcher);
}

inline Launcher innermost(const Variables& variables, bool (*is_socket)(int)) {
  return innermost_launcher(read_signs(variables, is_socket)).launcher;
}

inline Launcher without_server(const Variables& variables) {
  return launcher_without_server(read_signs(variables, no_socket)).launcher;
}

inline bool asks_server(Launcher launcher, const Variables& variables) {
  return row_of(launcher).needs_server(read_signs(variables, no_socket));
}

inline Placement placed_by(Launcher launcher, const Variables& variables,
                           const std::optional<ServerJob>& server = std::nullopt) {
  return find_placement(row_of(launcher), read_signs(variables, no_socket), server);
}

/// `server`: the answer of a PMIx server.
inline Placement placed(const Variables& variables, const std::optional<ServerJob>& server = std::nullopt) {
  const Signs signs = read_signs(variables, no_socket);
  const LauncherRow& row = innermost_launcher(signs);
  return find_placement(row, signs, row.needs_server(signs) ? server : std::nullopt);
}

inline ServerJob pmix_job(int rank, const std::vector<std::string>& hosts,
                          const std::string& name_space = "slurm.pmix.7.0") {
  ServerJob job{name_space, rank, {}, hosts};
  // As Slurm numbers nodes: by name.
  for (const auto& host : hosts) job.node_ids.push_back(host.back() - '1');
  return job;
}

/// `expected`: rank, size, intra_rank, intra_size, inter_rank, inter_size.
inline void expect_placement(const Placement& here, const std::vector<int>& expected) {
  EXPECT_THAT(
      (std::vector<int>{here.rank, here.size, here.intra_rank, here.intra_size, here.inter_rank, here.inter_size}),
      ::testing::ElementsAreArray(expected))
      << here.source;
  EXPECT_THAT(here.conflicts, ::testing::IsEmpty());
}

}  // namespace mn::launcher
