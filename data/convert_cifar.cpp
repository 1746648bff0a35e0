#include "data/convert.hpp"

#include <fstream>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/core/json.hpp>
#include <mn/data/memory_dataset.hpp>

#include "data/fixed_conversion.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kImageBytes = 3 * 32 * 32;  // three planes of 32 × 32 bytes: red, green, blue

/// CIFAR-10 or CIFAR-100. They differ in their files, and in the number of label bytes before an image.
struct Variant {
  std::vector<std::string> train;
  std::vector<std::string> val;
  std::string names;
  std::int64_t label_bytes;  // the last byte is the label; CIFAR-100's first byte is the superclass
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
                      ": unpack the binary version there",
                  true);
}

std::vector<std::string> read_names(const fs::path& path, std::int64_t classes) {
  std::vector<std::string> names;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(utf8_text(line));
  }
  // Class names are only displayed, so a wrong number of names is no error.
  if (static_cast<std::int64_t>(names.size()) != classes) names.clear();
  return names;
}

void add_images(const File& file, const Variant& variant, const SampleSpec& spec, RawSamples& samples) {
  const auto bytes = static_cast<std::int64_t>(file.size());
  const std::int64_t record = variant.label_bytes + kImageBytes;
  if (bytes == 0 || bytes % record != 0) {
    const std::string kind = but_kind_of_file(begin_of_file(file));
    throw DataError(file.path().string() +
                    (kind.empty() ? " is truncated or no CIFAR file: " + std::to_string(bytes) +
                                        " bytes are not a whole number of records of " + std::to_string(record)
                                  : " is no CIFAR file" + kind));
  }
  ByteBuffer records(bytes);
  file.read_at(0, records);
  for (std::int64_t i = 0; i < bytes / record; ++i) {
    const auto image = records.begin() + i * record + variant.label_bytes;
    const auto label = std::to_integer<std::int64_t>(image[-1]);
    if (label >= variant.classes) {
      throw DataError(file.path().string() + " is damaged: image " + std::to_string(i) + " has label " +
                      std::to_string(label));
    }
    samples.add(spec, {std::span(image, kImageBytes), std::span(&label, 1)});
  }
}

std::shared_ptr<const SampleSource> read_files(const fs::path& folder, const std::vector<std::string>& files,
                                               const Variant& variant) {
  SampleSpec spec =
      labeled({.shape = {3, 32, 32}}, variant.classes, read_names(folder / variant.names, variant.classes));
  RawSamples samples;
  samples.reset(spec, 0);
  for (const std::string& name : files) add_images(File(folder / name, File::Mode::kRead), variant, spec, samples);
  return std::make_shared<DatasetSource>(std::make_shared<MemoryDataset>(std::move(spec), std::move(samples)));
}

FixedSplit cifar_split(const fs::path& folder, const Variant& variant, const std::vector<std::string>& files,
                       Output output) {
  nlohmann::json request = nlohmann::json::array({source_facts(folder / variant.names)});
  for (const std::string& file : files) request.push_back(source_facts(folder / file));
  return {.output = std::move(output),
          .request = std::move(request),
          .attributes = {{"converter", "mnshard cifar"}, {"source", fs::absolute(folder).string()}},
          .open = [=, &variant](const fs::path&) { return read_files(folder, files, variant); }};
}

}  // namespace

ConversionResult convert_cifar(const fs::path& folder, const ConvertOptions& options) {
  const Variant& variant = variant_in(folder);
  FixedConversion conversion({cifar_split(folder, variant, variant.train, {options.out / "train", "train"}),
                              cifar_split(folder, variant, variant.val, {options.out / "val", "val"})},
                             options.shard_bytes);
  return run_conversion(conversion, options);
}

}  // namespace mn::data
