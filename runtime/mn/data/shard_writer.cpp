#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_writer.hpp>

namespace mn {
namespace {

void check_no_shards_in(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".h5") continue;
    throw UsageError(folder.string() + " holds " + entry.path().filename().string() +
                     " already: remove it, or choose another folder");
  }
}

void check_spec(const SampleSpec& spec, const std::string& split) {
  if (!data::can_store(spec.dtype) || (spec.kind == SampleKind::kEncoded && spec.dtype != DType::kUInt8)) {
    throw UsageError("shards hold no samples of " + std::string(name_of(spec.dtype)));
  }
  if (static_cast<std::uint64_t>(spec.sample_bytes()) > data::kSampleBytesLimit) {
    throw UsageError("shards hold no samples of more than 1 GiB");
  }
  if (split.empty() || split.front() == '.' || split.find('/') != std::string::npos) {
    throw UsageError("the split's name begins the names of its files: it can't be \"" + split + "\"");
  }
}

}  // namespace

class ShardWriter::Impl {
 public:
  Impl(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options)
      : folder_(std::move(folder)), spec_(std::move(spec)), options_(std::move(options)) {
    check_spec(spec_, options_.split);
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw DataError("cannot make the folder " + folder_.string() + ": " + error.message());
    check_no_shards_in(folder_);
    begin_shard();
  }

  void add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info) {
    if (is_finished_) throw ArgumentError("a sample after finish()");
    const std::int64_t most = spec_.num_classes > 0 ? spec_.num_classes - 1 : std::numeric_limits<std::int32_t>::max();
    if (label < 0 || label > most) {
      throw ArgumentError("label " + std::to_string(label) + " of sample " + std::to_string(size_) + " is not in 0 … " +
                          std::to_string(most));
    }
    const bool is_encoded = spec_.kind == SampleKind::kEncoded;
    if (!is_encoded && static_cast<std::int64_t>(sample.size()) != spec_.sample_bytes()) {
      throw ArgumentError("sample " + std::to_string(size_) + " has " + std::to_string(sample.size()) + " bytes, not " +
                          std::to_string(spec_.sample_bytes()));
    }
    if (is_full(sample.size())) write();
    if (is_encoded) {
      content_.add_encoded(sample, static_cast<std::int32_t>(label), {info.height, info.width, info.channels},
                           info.key);
    } else {
      content_.bytes.insert(content_.bytes.end(), sample.begin(), sample.end());
      content_.labels.push_back(static_cast<std::int32_t>(label));
    }
    most_ = std::max(most_, label);
    ++size_;
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  void finish() {
    if (is_finished_) return;
    if (size_ == 0) throw DataError("there are no samples to write into " + folder_.string());
    write();
    if (spec_.num_classes == 0) spec_.num_classes = most_ + 1;
    data::write_manifest({std::filesystem::absolute(folder_).string(), options_.split, spec_, shards_});
    is_finished_ = true;
  }

 private:
  void begin_shard() {
    content_ = {};
    content_.kind = spec_.kind;
    content_.dtype = spec_.dtype;
    content_.shape = spec_.shape;
    content_.attributes = {{"split", options_.split}, {"converter", "mn::ShardWriter"}};
  }

  [[nodiscard]] bool is_full(std::size_t next_bytes) const {
    const auto count = static_cast<std::int64_t>(content_.size());
    if (spec_.kind == SampleKind::kFixed) return count == data::samples_per_shard(spec_, options_.shard_bytes);
    return count > 0 && static_cast<std::int64_t>(content_.bytes.size() + next_bytes) > options_.shard_bytes;
  }

  void write() {
    char number[16];
    std::snprintf(number, sizeof number, "-%05zu.h5", shards_.size());
    shards_.push_back(data::write_shard(folder_ / (options_.split + number), content_));
    begin_shard();
  }

  std::filesystem::path folder_;
  SampleSpec spec_;
  ShardWriterOptions options_;
  data::ShardContent content_;  // of the next shard
  std::vector<data::ShardInfo> shards_;
  std::int64_t size_ = 0;
  std::int64_t most_ = 0;  // label
  bool is_finished_ = false;
};

ShardWriter::ShardWriter(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options)
    : impl_(std::make_unique<Impl>(std::move(folder), std::move(spec), std::move(options))) {}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

void ShardWriter::add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info) {
  impl_->add(sample, label, info);
}
std::int64_t ShardWriter::size() const noexcept { return impl_->size(); }
void ShardWriter::finish() { impl_->finish(); }

}  // namespace mn
