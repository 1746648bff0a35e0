#include "data/convert.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/retry.hpp>

#include "data/find_images.hpp"
#include "data/image_plan.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The file of the spec in the scratch folder. CBOR, because class names need not be UTF-8.
constexpr const char* kSpecName = "spec";

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Images' keys are paths relative to this folder.
fs::path root_of(const fs::path& source) {
  if (is_folder(source)) return source;
  return source.has_parent_path() ? source.parent_path() : ".";
}

/// Whether the shard holds the planned images in the planned order; some may be missing.
bool holds(const ShardReader& shard, const std::vector<std::string>& keys, const std::vector<ImageFile>& planned) {
  auto file = planned.begin();
  for (std::size_t i = 0; i < keys.size(); ++i, ++file) {
    const std::int64_t label = label_of(shard, static_cast<std::int64_t>(i));
    const auto same = [&](const ImageFile& other) { return other.key == keys[i] && other.label == label; };
    file = std::find_if(file, planned.end(), same);
    if (file == planned.end()) return false;
  }
  return shard.header().has_images;
}

class ImagesConversion final : public Conversion {
 public:
  ImagesConversion(const fs::path& source, const ImageConvertOptions& options)
      : Conversion({{options.output.out, options.output.split}}),
        source_(source),
        root_(root_of(source)),
        options_(options),
        division_{options.shuffle, options.seed, options.output.shard_bytes},
        problems_(options.images.skip_bad) {}

  [[nodiscard]] json request() const override {
    return {{"converter", "images"},
            {"source", is_folder(source_) ? json(fs::absolute(source_).string()) : source_facts(source_)},
            {"classes", options_.images.classes.empty() ? json() : source_facts(options_.images.classes)},
            {"columns", options_.images.columns},
            {"split", outputs_[0].split},
            {"shard_bytes", division_.shard_bytes},
            {"shuffle_seed", division_.shuffle ? json(division_.seed) : json()},
            {"resize", options_.images.resize}};
  }

  void plan(const fs::path& scratch) override {
    ImagePlanWriter writer(scratch);
    const ImageList list = list_images(source_, options_.images, options_.output.threads, writer);
    if (list.passed_over > 0 && options_.images.warn) {
      options_.images.warn("files left alone in " + source_.string() + ": " + std::to_string(list.passed_over) +
                           ", the first " + list.first_passed_over.string() +
                           " (in no class folder, or not named as an image)");
    }
    if (list.renamed > 0 && options_.images.warn) {
      options_.images.warn("names of folders in " + source_.string() + " that are not UTF-8: " +
                           std::to_string(list.renamed) + ", the first is recorded as class " + list.first_renamed);
    }
    writer.finish(division_);
    std::string bytes;
    json::to_cbor(to_json(labeled({.kind = FieldKind::kEncoded}, list.num_classes, list.class_names)), bytes);
    write_file(scratch / kSpecName, bytes);
  }

  void open(const fs::path& scratch) override {
    const fs::path file = scratch / kSpecName;
    spec_ = sample_spec_from_json(parse_cbor(read_file(file), file.string()), file.string());
    plan_.emplace(scratch, division_);
    outputs_[0].shards = plan_->shards();
  }

  [[nodiscard]] std::size_t units() const override { return plan_->shards(); }
  [[nodiscard]] std::int64_t steps(std::size_t unit) const override { return plan_->images_in(unit); }

  [[nodiscard]] ShardState state_of(std::size_t shard, const ShardReader& existing) const override {
    const auto planned = plan_->images_of(shard);
    const auto keys = existing.read_keys();
    if (!holds(existing, keys, planned)) return ShardState::kForeign;
    return keys.size() == planned.size() || options_.images.skip_bad ? ShardState::kWhole : ShardState::kUnusable;
  }

  void convert(std::size_t unit, ConversionPart& part) override {
    if (!part.wants(unit)) return part.advance(plan_->images_in(unit));
    ShardContent content = encoded_content(division_.shard_bytes);
    content.attributes = {{"split", outputs_[0].split},
                          {"converter", "mnshard images"},
                          {"source", fs::absolute(root_).string()},
                          {"shuffle_seed", division_.shuffle ? std::to_string(division_.seed) : "none"}};
    ImageIntake intake(options_.images, problems_);
    for (const ImageFile& file : plan_->images_of(unit)) {
      add(file, intake, content);
      part.advance(1);
    }
    part.write(unit, content);
  }

  [[nodiscard]] SampleSpec spec(std::size_t, std::int64_t) const override { return spec_; }

  void check(const ShardTable& table) override {
    if (table.num_samples() > 0) return;
    throw DataError("none of the " + std::to_string(plan_->size()) + " files is a usable image");
  }

  /// Number of listed files that are in no shard; 0 if an earlier run wrote the manifest.
  [[nodiscard]] std::int64_t missing_in(const ShardTable& table) const {
    return plan_ ? plan_->size() - table.num_samples() : 0;
  }
  [[nodiscard]] const ImageProblems& problems() const { return problems_; }

 private:
  void add(const ImageFile& file, ImageIntake& intake, ShardContent& content) {
    const fs::path path = root_ / file.key;
    try {
      const std::string bytes = with_retries([&] { return read_file(path); }, [] {});
      intake.add(std::as_bytes(std::span(bytes)), file.label, file.key, content);
    } catch (const FileError& error) {
      // Only a missing or forbidden file is left out. After other errors, this might lose a good image.
      if (error.error_number() != ENOENT && error.error_number() != EACCES) throw;
      const std::string began = ": it was listed when the conversion began; to list again, remove ";
      problems_.leave_out(error.what() + (error.error_number() == ENOENT ? began + outputs_[0].folder.string() : ""));
    } catch (const DataError& error) {
      problems_.leave_out(path.string() + ": " + error.what());
    }
  }

  fs::path source_;
  fs::path root_;
  ImageConvertOptions options_;
  ImageDivision division_;
  ImageProblems problems_;
  SampleSpec spec_;
  std::optional<ImagePlan> plan_;
};

}  // namespace

ImageConversion convert_images(const fs::path& source, const ImageConvertOptions& options) {
  ImagesConversion conversion(source, options);
  ImageConversion result;
  result.conversion = run_conversion(conversion, options.output);
  if (result.conversion.complete) result.left_out = conversion.missing_in(result.conversion.tables[0]);
  result.errors = conversion.problems().errors();
  result.warning = conversion.problems().warning();
  if (result.left_out > 0) result.empty_classes = empty_classes(result.table());
  return result;
}

}  // namespace mn::data
