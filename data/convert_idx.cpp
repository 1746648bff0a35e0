#include "data/convert.hpp"

#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/memory_dataset.hpp>

#include "data/fixed_conversion.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

fs::path gzip_or_raw(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {".gz", ""}) {
    fs::path path = folder / (name + suffix);
    if (fs::exists(path)) return path;
  }
  throw DataError("there is no " + name + " or " + name + ".gz in " + folder.string() +
                      ": MNIST's four files are expected there; for others, name a file of images and one of labels",
                  true);
}

FixedSplit idx_split(const fs::path& images, const fs::path& labels, Output output) {
  return {.output = std::move(output),
          .request = nlohmann::json::array({source_facts(images), source_facts(labels)}),
          .attributes = {{"converter", "mnshard idx"},
                         {"source", images.filename().string() + ", " + labels.filename().string()}},
          .open = [=](const fs::path&) -> std::shared_ptr<const SampleSource> {
            return std::make_shared<DatasetSource>(read_idx_dataset(images, labels));
          }};
}

}  // namespace

ConversionResult convert_idx(const fs::path& images, const fs::path& labels, const ConvertOptions& options) {
  FixedConversion conversion({idx_split(images, labels, {options.out, options.split})}, options.shard_bytes);
  return run_conversion(conversion, options);
}

ConversionResult convert_idx_folder(const fs::path& folder, const ConvertOptions& options) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw DataError("there is no folder " + folder.string(), true);
  std::vector<FixedSplit> splits;
  for (const auto& [split, prefix] : {std::pair("train", "train"), std::pair("val", "t10k")}) {
    splits.push_back(idx_split(gzip_or_raw(folder, std::string(prefix) + "-images-idx3-ubyte"),
                               gzip_or_raw(folder, std::string(prefix) + "-labels-idx1-ubyte"),
                               {options.out / split, split}));
  }
  FixedConversion conversion(std::move(splits), options.shard_bytes);
  return run_conversion(conversion, options);
}

}  // namespace mn::data
