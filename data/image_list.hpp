/// Which images there are to convert, and the shard of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace mn::data {

struct ImageFile {
  std::string key;  ///< path relative to the source
  std::int32_t label = 0;
  std::int64_t bytes = 0;
};

struct ImageList {
  std::filesystem::path root;  ///< keys are relative to it
  std::vector<ImageFile> files;
  std::vector<std::string> class_names;  ///< may be empty for list files
  std::int64_t num_classes = 0;
  std::int64_t passed_over = 0;  ///< files in no class folder, or whose names do not end as an image's does
  std::filesystem::path first_passed_over;
};

/// A folder of one folder for each class, with images in it or in folders within, as torchvision's ImageFolder takes
/// them; or a list file of lines "path label". What is hidden is left alone. Throws DataError that names an empty
/// class, a malformed line, a file that is not there, or a source without images.
/// `class_names`, if not empty, is a file of names for the labels of a list, 0 first: at least as many as labels.
[[nodiscard]] ImageList list_images(const std::filesystem::path& source, const std::filesystem::path& class_names);

/// The files of each shard.
using ImagePlan = std::vector<std::vector<ImageFile>>;
/// Shuffled with `seed` if `shuffle`, then cut into shards of about `shard_bytes`.
[[nodiscard]] ImagePlan plan_shards(const ImageList& list, bool shuffle, std::uint64_t seed, std::int64_t shard_bytes);
/// Equal for equal plans.
[[nodiscard]] std::uint64_t hash_of(const ImagePlan& plan);

}  // namespace mn::data
