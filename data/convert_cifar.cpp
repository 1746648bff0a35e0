#include <cstring>
#include <fstream>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/convert.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImageBytes = 3 * 32 * 32;  // three planes: red, green, blue

/// The two data sets differ in their files and in the bytes of label before each image.
struct Variant {
  std::vector<std::string> train;
  std::vector<std::string> val;
  std::string names;
  std::size_t label_bytes;  // the last one counts: CIFAR-100's first is the superclass
  std::int64_t classes;
};

const Variant& variant_in(const fs::path& folder) {
  static const Variant kCifar10{
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      {"test_batch.bin"},
      "batches.meta.txt",
      1,
      10};
  static const Variant kCifar100{{"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2, 100};
  for (const Variant* variant : {&kCifar10, &kCifar100}) {
    if (fs::exists(folder / variant->train.front())) return *variant;
  }
  throw DataError("there is neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100) in " + folder.string() +
                  ": unpack the binary version there");
}

void append_file(const fs::path& path, const Variant& variant, RawSamples& samples) {
  const std::string content = read_file(path);
  const std::size_t record = variant.label_bytes + kImageBytes;
  if (content.empty() || content.size() % record != 0) {
    throw DataError(path.string() + " is truncated or no CIFAR file: " + std::to_string(content.size()) +
                    " bytes are no whole number of records of " + std::to_string(record));
  }
  for (std::size_t at = 0; at < content.size(); at += record) {
    const auto label = static_cast<unsigned char>(content[at + variant.label_bytes - 1]);
    if (label >= variant.classes) {
      throw DataError(path.string() + " is damaged: image " + std::to_string(at / record) + " has label " +
                      std::to_string(label));
    }
    samples.labels.push_back(label);
    const auto image = std::as_bytes(std::span(content)).subspan(at + variant.label_bytes, kImageBytes);
    samples.bytes.insert(samples.bytes.end(), image.begin(), image.end());
  }
}

std::vector<std::string> read_names(const fs::path& path, std::int64_t classes) {
  std::vector<std::string> names;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<std::int64_t>(names.size()) != classes) names.clear();  // they are only for show
  return names;
}

}  // namespace

std::vector<ShardTable> convert_cifar(const fs::path& folder, const ConvertOptions& options) {
  const Variant& variant = variant_in(folder);
  SampleSpec spec;
  spec.shape = {3, 32, 32};
  spec.num_classes = variant.classes;
  spec.class_names = read_names(folder / variant.names, variant.classes);
  std::vector<FixedSplit> splits;
  for (const auto& [split, files] : {std::pair("train", variant.train), std::pair("val", variant.val)}) {
    RawSamples samples;
    for (const std::string& file : files) append_file(folder / file, variant, samples);
    splits.push_back({split,
                      std::make_shared<MemoryDataset>(spec, std::move(samples)),
                      {{"converter", "mnshard cifar"}, {"source", fs::absolute(folder).string()}}});
  }
  return write_splits(splits, options);
}

}  // namespace mn::data
