/// `mnshard index`, and the commands info, verify and extract for indexed files.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/settings.hpp"

namespace mn::data {

/// Returns the exit status. Throws UsageError or DataError.
int run_index(Arguments arguments, const Settings& settings);

/// Each for the folder of a manifest of indexed files; returns the exit status.
int info_index(const std::filesystem::path& folder);
/// Reads and decodes all blocks, and checks the filters' checksums.
int verify_index(const std::filesystem::path& folder, int threads);
/// Writes a field of a sample to settings.out, or to standard output.
int extract_index(const std::filesystem::path& folder, std::int64_t sample, const Settings& settings);

}  // namespace mn::data
