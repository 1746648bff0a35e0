/// Values of mnshard's options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/core/cpus.hpp>

namespace mn::data {

/// Values of the options, by default as here.
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
  std::string vocabulary = "bpe";
  std::string vocabulary_file;
  std::int64_t vocabulary_size = 8192;
  std::string encoding = "utf-8";
  std::int64_t context = 256;
  double val_part = 0.1;
  std::int64_t threads = std::min<std::int64_t>(static_cast<std::int64_t>(cpu_count()), 16);  ///< each holds a shard
  std::int64_t seed = 0;
  bool shuffle = true;
  std::string on_error = "fail";
  std::string check = "decode";
};

/// The arguments after the command's name.
using Arguments = std::span<const std::string>;

}  // namespace mn::data
