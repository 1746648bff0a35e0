/// The commands of mncheck. Each returns the exit status; errors are mn::Error.
#pragma once

#include <filesystem>
#include <vector>

#include "data/mncheck/arguments.hpp"

namespace mn::check {

/// The checkpoints of an output folder, the newest first, or the checkpoint `path`. Throws DataError if there is none.
[[nodiscard]] std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path);

int list(const std::filesystem::path& path);
int verify(const std::filesystem::path& path);
/// `path`: an output folder, or its ckpt folder.
int prune(const std::filesystem::path& path, const Settings& settings);
int merge(const std::filesystem::path& path, const Settings& settings);
/// compare.cpp
int diff(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace mn::check
