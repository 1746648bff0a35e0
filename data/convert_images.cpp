// Images on disk → shards, in parallel and resumable.
//
// The plan, a function of files, seed and shard size, says which file goes into which shard. A mark in the output
// folder keeps the plan's hash while the conversion runs. Threads take shards from a counter; each checks its images,
// collects them in memory and publishes the shard at once. The manifest comes last, then the mark is removed.
//
// (1) Labels, shards and bytes depend on the plan alone: not on threads, nor on interruptions.
// (2) A published shard is complete. After a kill only missing, damaged or (without --on-error skip) incomplete shards
//     are written again; what another plan wrote is never touched.
// (3) A manifest exists only where all its shards do.
// (4) The first failure stops all threads and is the one that is thrown.
//
// Cost: each image is read once, and decoded once unless only its header is checked; memory is one shard a thread.
#include "data/convert_images.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/shard_reader.hpp>
#include <mn/data/shard_writer.hpp>
#include <mn/image/image_decoder.hpp>

#include "data/image_list.hpp"
#include "data/output_folder.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// Present while a conversion is under way: what it makes, so that only the same one resumes it.
constexpr const char* kPlanName = "conversion.json";

/// Begins a conversion, or resumes an interrupted one.
void claim_output(const fs::path& out, std::uint64_t plan) {
  const fs::path path = out / kPlanName;
  const std::string mark = nlohmann::json{{"plan", std::to_string(plan)}}.dump() + "\n";
  if (fs::exists(path)) {
    if (read_file(path) == mark) return;
    throw UsageError(out.string() +
                     " holds the beginnings of another conversion (other files, split, seed or shard size): " +
                     "remove it, or choose another folder with --out");
  }
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().extension() != ".h5") continue;
    throw UsageError(out.string() + " holds shards of no resumable conversion (" + entry.path().filename().string() +
                     "): remove them, or choose another folder with --out");
  }
  write_file(path, mark);
}

/// Whether the shard holds planned images, in their order; some may be left out.
bool holds(const ShardReader& shard, const std::vector<std::string>& keys, const std::vector<ImageFile>& planned) {
  auto file = planned.begin();
  for (std::size_t i = 0; i < keys.size(); ++i, ++file) {
    const std::int32_t label = shard.label(static_cast<std::int64_t>(i));
    const auto same = [&](const ImageFile& other) { return other.key == keys[i] && other.label == label; };
    file = std::find_if(file, planned.end(), same);
    if (file == planned.end()) return false;
  }
  return shard.header().kind == SampleKind::kEncoded;
}

class Converter {
 public:
  Converter(const ImageList& list, const ImagePlan& plan, const ImageConvertOptions& options)
      : list_(list), plan_(plan), options_(options), shards_(plan.size()) {
    for (const auto& shard : plan) total_ += static_cast<std::int64_t>(shard.size());
  }

  void run() {
    std::vector<std::jthread> workers;
    const auto count = std::min<std::size_t>(options_.threads, plan_.size());
    for (std::size_t t = 1; t < count; ++t) workers.emplace_back([this] { work(); });
    work();
    workers.clear();  // joins
    if (failure_) std::rethrow_exception(failure_);
  }

  ImageConversion result() {
    ImageConversion result;
    std::int64_t written = 0;
    for (const ShardInfo& shard : shards_) written += shard.num_samples;
    result.left_out = total_ - written;
    result.kept_shards = kept_;
    std::sort(errors_.begin(), errors_.end());
    result.errors = std::move(errors_);
    SampleSpec spec;
    spec.kind = SampleKind::kEncoded;
    spec.num_classes = list_.num_classes;
    spec.class_names = list_.class_names;
    const ConvertOptions& output = options_.output;
    result.table = ShardTable(fs::absolute(output.out).string(), output.split, spec, std::move(shards_));
    if (result.table.num_samples() == 0)
      throw DataError("none of the " + std::to_string(total_) + " files is a usable JPEG or PNG");
    return result;
  }

 private:
  void work() {
    try {
      ImageDecoder decoder;
      for (std::size_t i = next_++; i < plan_.size() && !stop_; i = next_++) shards_[i] = convert(i, decoder);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
  }

  ShardInfo convert(std::size_t index, ImageDecoder& decoder) {
    const fs::path path = options_.output.out / shard_name(options_.output.split, index, plan_.size());
    if (const auto kept = finished(path, plan_[index])) {
      ++kept_;
      advance(static_cast<std::int64_t>(plan_[index].size()));
      return *kept;
    }
    ShardContent content;
    content.kind = SampleKind::kEncoded;
    content.attributes = {{"split", options_.output.split},
                          {"converter", "mnshard images"},
                          {"source", fs::absolute(list_.root).string()},
                          {"shuffle_seed", options_.shuffle ? std::to_string(options_.seed) : "none"}};
    for (const ImageFile& file : plan_[index]) {
      if (stop_) throw DataError("stopped");  // by another thread's failure, which is the one that is reported
      add(content, file, decoder);
      advance(1);
    }
    return write_shard(path, content);
  }

  /// The shard as an earlier run wrote it; no value if it must be written (again).
  std::optional<ShardInfo> finished(const fs::path& path, const std::vector<ImageFile>& planned) const {
    if (!fs::exists(path)) return {};
    try {
      const ShardReader shard(open_shard(path), std::make_shared<IoCounters>());
      const auto keys = shard.read_keys();
      if (!holds(shard, keys, planned)) {
        throw UsageError(path.string() + " holds other images than belong there: remove it and start again");
      }
      if (keys.size() < planned.size() && !options_.skip_bad) return {};
      return describe_shard(path);
    } catch (const DataError&) {
      return {};  // truncated or damaged
    }
  }

  void add(ShardContent& content, const ImageFile& file, ImageDecoder& decoder) {
    const fs::path path = list_.root / file.key;
    try {
      const std::string text = read_file(path);
      const auto bytes = std::as_bytes(std::span(text));
      const ImageHeader header = decoder.open(bytes);
      Image ignored;
      if (!options_.check_headers_only) decoder.decode({0, 0, header.width, header.height}, 1, 1, ignored);
      content.add_encoded(bytes, file.label,
                          {static_cast<std::uint16_t>(header.height), static_cast<std::uint16_t>(header.width),
                           static_cast<std::uint16_t>(header.components)},
                          file.key);
    } catch (const DataError& error) {
      const std::string what = path.string() + ": " + error.what();
      if (!options_.skip_bad) throw DataError(what + " (--on-error skip leaves such files out)");
      const std::lock_guard lock(mutex_);
      errors_.push_back(what);
    }
  }

  void advance(std::int64_t files) {
    const std::lock_guard lock(mutex_);
    done_ += files;
    if (options_.progress) options_.progress(done_, total_);
  }

  const ImageList& list_;
  const ImagePlan& plan_;
  const ImageConvertOptions& options_;
  std::int64_t total_ = 0;
  std::vector<ShardInfo> shards_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<std::int64_t> kept_ = 0;

  std::mutex mutex_;  // guards the rest
  std::int64_t done_ = 0;
  std::vector<std::string> errors_;
  std::exception_ptr failure_;
};

}  // namespace

ImageConversion convert_images(const fs::path& source, const ImageConvertOptions& options) {
  const ImageList list = list_images(source, options.classes);
  if (list.passed_over > 0 && options.warn) {
    options.warn("files left alone in " + source.string() + ": " + std::to_string(list.passed_over) + ", the first " +
                 list.first_passed_over.string() + " (in no class folder, or not named as an image)");
  }
  const ImagePlan plan = plan_shards(list, options.shuffle, options.seed, options.output.shard_bytes);
  const OutputFolder out(options.output);
  claim_output(options.output.out, hash64(options.output.split, hash_of(plan)));
  Converter converter(list, plan, options);
  converter.run();
  ImageConversion result = converter.result();
  write_manifest(result.table);
  fs::remove(options.output.out / kPlanName);
  return result;
}

}  // namespace mn::data
