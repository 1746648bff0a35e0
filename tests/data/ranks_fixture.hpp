/// Conversions by several ranks: threads of a single process; files and locks see several processes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/core/launcher_variables.hpp>

#include "data/conversion.hpp"

namespace mn::data {

/// Calls convert(rank) for all ranks of a job at once; returns the results by rank.
template <class Convert>
auto by_ranks(int size, Convert convert) {
  std::vector<decltype(convert(JobRank{}))> results(size);
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] { results[rank] = convert(JobRank{.rank = rank, .size = size, .job = "job"}); });
    }
  }
  return results;
}

/// Every file below `folder`, also hidden files, by path in the folder.
inline std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder)] = read_file(entry.path());
  }
  return files;
}

}  // namespace mn::data
