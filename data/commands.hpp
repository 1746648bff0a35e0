/// The commands of mnshard, and the values of its options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <mn/core/cpus.hpp>

#include "data/convert.hpp"

namespace mn::data {

/// Values of the options.
struct Settings {
  std::string out;
  std::string split = "train";
  std::int64_t shard_mb = 256;
  std::string classes;
  std::int64_t resize = 0;
  std::string x = "x";
  std::string y = "y";
  std::vector<std::string> fields;
  std::vector<std::string> class_fields;
  std::string unwritten = "fail";
  TokenOptions tokens;
  std::string encoding = "utf-8";
  std::int64_t threads = std::min<std::int64_t>(static_cast<std::int64_t>(cpu_count()), 16);  ///< each holds a shard
  std::int64_t seed = 0;
  bool shuffle = true;
  std::string on_error = "fail";
  std::string check = "decode";
};

/// The arguments after the command's name.
using Arguments = std::span<const std::string>;

/// Each returns the exit status. Throws UsageError or DataError.
int run_idx(Arguments arguments, const Settings& settings);
int run_images(Arguments arguments, const Settings& settings);
int run_cifar(Arguments arguments, const Settings& settings);
int run_tar(Arguments arguments, const Settings& settings);
int run_npy(Arguments arguments, const Settings& settings);
int run_npz(Arguments arguments, const Settings& settings);
int run_tokens(Arguments arguments, const Settings& settings);
int run_index(Arguments arguments, const Settings& settings);
int run_info(Arguments arguments, const Settings& settings);
int run_verify(Arguments arguments, const Settings& settings);
int run_extract(Arguments arguments, const Settings& settings);

/// The last three for the folder of a manifest of indexed files.
int info_index(const std::filesystem::path& folder);
/// Reads and decodes all blocks, and checks the filters' checksums.
int verify_index(const std::filesystem::path& folder, int threads);
/// Writes a field of a sample to settings.out, or to standard output.
int extract_index(const std::filesystem::path& folder, std::int64_t sample, const Settings& settings);

}  // namespace mn::data
