// Converts WebDatasets to shards.
//
// The number of shards of a tar file is computed from an estimate of its images' bytes: the file's length times the
// fraction of images in the first MiBs of the first tar file. (Headers of small images may be larger than the images.)
// Shard i of n has the samples that begin in the i-th of n equal parts of the file. Each tar file is a unit, and is
// read once, from beginning to end.
#include "data/convert.hpp"

#include <algorithm>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "data/find_images.hpp"
#include "data/label_list.hpp"
#include "data/unpack.hpp"
#include "data/webdataset.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Lists the tar files in the order of `sources`. A folder stands for all tar files in it, sorted by name.
std::vector<fs::path> list_tars(const std::vector<std::string>& sources) {
  std::vector<fs::path> tars;
  for (const std::string& source : sources) {
    std::error_code error;
    if (!fs::is_directory(source, error)) {
      tars.emplace_back(source);
      continue;
    }
    const std::size_t before = tars.size();
    for (const std::string& name : list_names(source).files) {
      constexpr const char* kEndings[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz"};
      const auto is_end = [&](const char* ending) { return name.ends_with(ending); };
      if (std::ranges::any_of(kEndings, is_end)) tars.push_back(fs::path(source) / name);
    }
    if (tars.size() == before) throw DataError("there is no .tar file in " + source, true);
  }
  return tars;
}

/// The samples left out of a shard, as the file note_of() stores them.
struct LeftOutOfShard {
  std::int64_t count = 0;
  std::int64_t most = -1;  // largest label of these samples; −1: no label

  void add(std::int64_t label) {
    ++count;
    most = std::max(most, label);
  }
  [[nodiscard]] std::string text() const { return std::to_string(count) + " " + std::to_string(most); }
};

class TarConversion final : public Conversion {
 public:
  TarConversion(std::vector<fs::path> tars, const ImageConvertOptions& options)
      : Conversion({{options.output.out, options.output.split}}),
        tars_(std::move(tars)),
        options_(options),
        problems_(options.images.skip_bad) {}

  [[nodiscard]] json request() const override {
    std::uint64_t hash = 0;
    for (const fs::path& tar : tars_) hash = hash64(json_text(source_facts(tar)), hash);
    return {{"converter", "tar"},
            {"tars", tars_.size()},
            {"first", source_facts(tars_.front())},
            {"hash", hash},
            {"classes", options_.images.classes.empty() ? json() : source_facts(options_.images.classes)},
            {"members", {options_.members.image, options_.members.label, options_.members.keys}},
            {"split", outputs_[0].split},
            {"shard_bytes", options_.output.shard_bytes},
            {"resize", options_.images.resize}};
  }

  void plan(const fs::path& scratch) override {
    for (const fs::path& tar : tars_) {
      if (!fs::exists(tar)) throw DataError("there is no tar file " + tar.string());
    }
    if (!options_.images.classes.empty()) (void)read_class_names(options_.images.classes);
    if (std::ranges::any_of(tars_, is_packed)) {
      write_file(scratch / kPackedName, "");
    } else {
      write_fill(scratch);
    }
  }

  std::vector<PlanRound> plan_rounds(const fs::path& scratch) override {
    if (!fs::exists(scratch / kPackedName)) return {};
    const auto unpack_tar = [this, scratch](std::size_t tar) {
      if (is_packed(tars_[tar])) unpack(tars_[tar], unpacked_in(scratch, tar));
    };
    return {{tars_.size(), unpack_tar}, {1, [this, scratch](std::size_t) { write_fill(scratch); }}};
  }

  void open(const fs::path& scratch) override {
    scratch_ = scratch;
    const std::int64_t permille = std::stoll(read_file(scratch / kFillName));
    for (std::size_t tar = 0; tar < tars_.size(); ++tar) {
      const auto bytes = static_cast<std::int64_t>(fs::file_size(readable(scratch, tar))) / kWhole * permille;
      firsts_.push_back(firsts_.back() + std::max<std::int64_t>(bytes - 1, 0) / options_.output.shard_bytes + 1);
    }
    outputs_[0].shards = firsts_.back();
    if (!options_.images.classes.empty()) class_names_ = read_class_names(options_.images.classes);
  }

  [[nodiscard]] std::size_t units() const override { return tars_.size(); }
  [[nodiscard]] std::size_t first_shard(std::size_t unit) const override { return firsts_[unit]; }
  [[nodiscard]] std::int64_t steps(std::size_t unit) const override {
    return static_cast<std::int64_t>(firsts_[unit + 1] - firsts_[unit]);
  }

  [[nodiscard]] ShardState state_of(std::size_t shard, const ShardReader& existing) const override {
    if (!existing.header().has_images) return ShardState::kForeign;
    return options_.images.skip_bad || !fs::exists(note_of(shard)) ? ShardState::kWhole : ShardState::kUnusable;
  }

  void convert(std::size_t unit, ConversionPart& part) override {
    const std::size_t shards = firsts_[unit + 1] - firsts_[unit];
    std::vector<bool> wanted(shards);
    for (std::size_t i = 0; i < shards; ++i) wanted[i] = part.wants(firsts_[unit] + i);
    const auto end = static_cast<std::size_t>(std::find(wanted.rbegin(), wanted.rend(), true).base() - wanted.begin());

    WebReader reader = reader_of(scratch_, unit);
    ImageIntake intake(options_.images, problems_);
    WebSample sample;
    bool more = end > 0 && reader.next(sample);
    for (std::size_t i = 0; i < shards; ++i) {
      ShardContent content = empty_shard(unit);
      LeftOutOfShard left_out;
      for (; more && i < end && part_of(sample, reader.file_bytes(), shards) == i; more = reader.next(sample)) {
        if (wanted[i] && !add(unit, sample, intake, content)) left_out.add(sample.label);
      }
      if (left_out.count > 0) write_file(note_of(firsts_[unit] + i), left_out.text());
      if (wanted[i]) part.write(firsts_[unit] + i, content);
      part.advance(1);
    }
  }

  [[nodiscard]] SampleSpec spec(std::size_t, std::int64_t most) const override {
    const std::int64_t classes = class_names_.empty() ? std::max(most, left_out_of_all().most) + 1
                                                      : static_cast<std::int64_t>(class_names_.size());
    return labeled({.kind = FieldKind::kEncoded}, classes, class_names_);
  }

  void check(const ShardTable& table) override {
    if (table.num_samples() == 0) throw DataError("there is no usable sample in " + tars_.front().string());
    sum_of_notes_ = left_out_of_all().count;
    if (!class_names_.empty()) return;
    const std::int64_t classes = table.spec().num_classes();
    const bool has_gap = classes > table.num_samples() + sum_of_notes_;  // some class must be empty
    if (!has_gap && sum_of_notes_ > 0) return;                           // a warning names the empty classes
    const auto empty = has_gap ? std::vector<std::string>() : empty_classes(table);
    if (has_gap || !empty.empty()) {
      throw DataError((has_gap ? "a class" : "class " + empty.front()) + " of the " + std::to_string(classes) +
                      " classes in " + tars_.front().string() + " is empty: " + kNumberClasses);
    }
  }
  [[nodiscard]] std::int64_t left_out() const { return sum_of_notes_; }

  [[nodiscard]] const ImageProblems& problems() const { return problems_; }

 private:
  static constexpr const char* kFillName = "fill";
  static constexpr const char* kPackedName = "packed";  // this file exists if a tar file is packed
  static constexpr std::int64_t kWhole = 1000;

  /// The fraction of images in the first MiBs of the first tar file, in thousandths, but at least a quarter: later
  /// images may fill more of the file, and a shard needs memory for all its images.
  [[nodiscard]] std::int64_t fill_of_first(const fs::path& scratch) const {
    constexpr std::uint64_t kLookedAt = 4 << 20;
    WebReader reader = reader_of(scratch, 0);
    WebSample sample;
    std::uint64_t end = std::max<std::uint64_t>(reader.file_bytes(), 1);
    std::int64_t images = 0;
    while (reader.next(sample)) {
      if (sample.at >= kLookedAt) {
        end = sample.at;
        break;
      }
      images += std::ssize(sample.image) + std::ssize(sample.key);
    }
    return std::clamp<std::int64_t>(images * kWhole / static_cast<std::int64_t>(end), kWhole / 4, kWhole);
  }

  void write_fill(const fs::path& scratch) const {
    write_file(scratch / kFillName, std::to_string(fill_of_first(scratch)));
  }

  static fs::path unpacked_in(const fs::path& scratch, std::size_t tar) {
    return scratch / ("unpacked-" + std::to_string(tar));
  }
  [[nodiscard]] fs::path readable(const fs::path& scratch, std::size_t tar) const {
    const fs::path unpacked = unpacked_in(scratch, tar);
    return fs::exists(unpacked) ? unpacked : tars_[tar];
  }

  [[nodiscard]] WebReader reader_of(const fs::path& scratch, std::size_t tar) const {
    WebMembers members = options_.members;
    if (!options_.images.classes.empty()) members.class_names = read_class_names(options_.images.classes);
    return WebReader(readable(scratch, tar), std::move(members), tars_[tar].string());
  }

  /// Returns in which of `parts` equal parts of the tar file the sample begins.
  static std::size_t part_of(const WebSample& sample, std::uint64_t file_bytes, std::size_t parts) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(Wide{sample.at} * parts / file_bytes);
  }

  /// The file of the shard's LeftOutOfShard::text(); absent if no sample was left out.
  [[nodiscard]] fs::path note_of(std::size_t shard) const { return scratch_ / ("incomplete-" + std::to_string(shard)); }

  [[nodiscard]] LeftOutOfShard left_out_of_all() const {
    LeftOutOfShard all;
    for (std::size_t shard = 0; shard < firsts_.back(); ++shard) {
      if (!fs::exists(note_of(shard))) continue;
      const std::string text = read_file(note_of(shard));
      all.count += std::stoll(text);
      all.most = std::max<std::int64_t>(all.most, std::stoll(text.substr(text.find(' '))));
    }
    return all;
  }

  [[nodiscard]] ShardContent empty_shard(std::size_t unit) const {
    ShardContent content = encoded_content(options_.output.shard_bytes);
    content.attributes = {
        {"split", outputs_[0].split}, {"converter", "mnshard tar"}, {"source", fs::absolute(tars_[unit]).string()}};
    return content;
  }

  bool add(std::size_t unit, const WebSample& sample, ImageIntake& intake, ShardContent& content) {
    try {
      if (!sample.error.empty()) throw DataError(sample.error);
      const auto classes = static_cast<std::int64_t>(class_names_.size());
      if (classes > 0 && sample.label >= classes) {
        throw DataError("it has label " + std::to_string(sample.label) + ", but " + options_.images.classes.string() +
                        " names " + std::to_string(classes) + " classes");
      }
      intake.add(sample.image, sample.label, sample.key, content);
      return true;
    } catch (const DataError& error) {
      problems_.leave_out(tars_[unit].string() + ": sample " + sample.key + ": " + error.what());
      return false;
    }
  }

  std::vector<fs::path> tars_;
  fs::path scratch_;
  ImageConvertOptions options_;
  ImageProblems problems_;
  std::int64_t sum_of_notes_ = 0;
  std::vector<std::string> class_names_;
  std::vector<std::size_t> firsts_ = {0};  // [tars + 1] number of each tar file's first shard
};

}  // namespace

ImageConversion convert_tar(const std::vector<std::string>& sources, const ImageConvertOptions& options) {
  TarConversion conversion(list_tars(sources), options);
  ImageConversion result;
  result.conversion = run_conversion(conversion, options.output);
  result.left_out = conversion.left_out();
  result.errors = conversion.problems().errors();
  result.warning = conversion.problems().warning();
  if (result.left_out > 0 && result.conversion.complete) result.empty_classes = empty_classes(result.table());
  return result;
}

}  // namespace mn::data
