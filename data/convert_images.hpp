/// Images on disk → shards of encoded samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/convert.hpp"

namespace mn::data {

struct ImageConvertOptions {
  ConvertOptions output;
  std::filesystem::path classes = {};  ///< for list files: names of the classes, one a line, label 0 first
  int threads = 1;                     ///< each holds one shard in memory
  std::uint64_t seed = 0;              ///< of the one shuffle that decides which images share a shard
  bool shuffle = true;
  bool skip_bad = false;            ///< leave unusable files out, instead of ending with the first
  bool check_headers_only = false;  ///< instead of decoding every image once
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  ///< in files; one call at a time
  std::function<void(const std::string& warning)> warn = {};                 ///< before any shard is written
};

struct ImageConversion {
  ShardTable table;
  std::int64_t kept_shards = 0;     ///< finished by an earlier, interrupted run
  std::int64_t left_out = 0;        ///< files that are in no shard
  std::vector<std::string> errors;  ///< one for each file that this run left out
};

/// `source` is a folder with one folder of JPEGs and PNGs, perhaps in folders of their own, for each class (classes are
/// numbered by name), or a list file with lines "path label", paths relative to it. Shards are written in parallel and
/// published one by one; after an interruption the same call resumes with those that are missing or damaged. The
/// manifest comes last. Labels, shards and bytes depend on the files, the seed and the shard size alone. Throws
/// UsageError (a dataset, shards or the beginnings of another conversion are there already, or another process is
/// writing there), DataError (no image to convert, an empty class, an unusable file).
ImageConversion convert_images(const std::filesystem::path& source, const ImageConvertOptions& options);

}  // namespace mn::data
