/// Images → shards of encoded samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_intake.hpp"
#include "data/run_conversion.hpp"

namespace mn::data {

struct ImageConvertOptions {
  ConvertOptions output;
  ImageOptions images = {};
  std::uint64_t seed = 0;  ///< seed of the shuffle that decides which images share a shard
  bool shuffle = true;
};

struct ImageConversion {
  ConversionResult conversion;
  std::int64_t left_out = 0;               ///< files in no shard, of all processes and earlier runs, if complete
  std::vector<std::string> errors;         ///< a line for each file that this call left out
  std::vector<std::string> empty_classes;  ///< classes without a sample, as files were left out

  /// The table of the dataset, if it is complete.
  [[nodiscard]] const ShardTable& table() const { return conversion.tables.at(0); }
};

/// `source` is a folder with one folder of images, perhaps in folders of their own, for each class (classes are
/// numbered by name), or a list file with lines "path label", paths relative to it. The files are listed once; whatever
/// resumes the conversion goes by that list. Processes share the work as run_conversion() says; labels, shards and
/// bytes depend on the files, the seed, the shard size and resizing alone. Throws as run_conversion(), and DataError:
/// no image to convert, an empty class, an unusable file.
ImageConversion convert_images(const std::filesystem::path& source, const ImageConvertOptions& options);

/// WebDataset: tar files, or a folder with tar files, with consecutive members NAME.jpg, .jpeg or .png and NAME.cls;
/// .cls holds the label as text, other members are ignored. Samples keep their order and NAME; no shard has samples of
/// two tar files. Throws as convert_images() does; names a damaged tar file.
ImageConversion convert_tar(const std::vector<std::string>& sources, const ImageConvertOptions& options);

}  // namespace mn::data
