#include <mn/data/shard_writer.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/classes.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_format.hpp>

namespace mn {
namespace {

void check_no_shards_in(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".h5") continue;
    throw UsageError(folder.string() + " holds " + entry.path().filename().string() +
                     " already: remove it, or choose another folder");
  }
}

SampleSpec checked(SampleSpec spec, const std::string& split) {
  if (const std::string problem = data::storage_problem(spec); !problem.empty()) {
    throw UsageError("shards hold no such samples: " + problem);
  }
  if (split.empty() || split.front() == '.' || split.find('/') != std::string::npos) {
    throw UsageError("the split's name begins the names of its files: it can't be \"" + split + "\"");
  }
  data::ShardHeader header{.block_samples = data::default_block_samples(spec), .spec = data::without_classes(spec)};
  header.fields.resize(spec.fields.size());
  header.has_images = data::are_images(spec);
  (void)data::encode_header(header);  // throws if the header has no room for the spec
  return spec;
}

}  // namespace

class ShardWriter::Impl {
 public:
  Impl(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options)
      : folder_(std::move(folder)),
        spec_(checked(std::move(spec), options.split)),
        options_(std::move(options)),
        is_labeled_(data::is_labeled(spec_)),
        most_(spec_.fields.size(), 0) {
    make_folders(folder_);
    check_no_shards_in(folder_);
    begin_shard();
  }

  void add(std::span<const ConstBufferView> fields, const EncodedInfo& info) {
    if (is_finished_) throw ArgumentError("a sample after finish()");
    check_classes(fields);
    std::int64_t bytes = 0;
    for (const ConstBufferView& field : fields) bytes += static_cast<std::int64_t>(field.bytes());
    // A full shard is written before the sample is added, so only a shard of a single sample exceeds shard_bytes.
    if (is_full(bytes)) write();
    try {
      content_.samples.add(spec_, fields);
    } catch (const ArgumentError& error) {
      throw ArgumentError("sample " + std::to_string(size_) + " to write into " + folder_.string() + ": " +
                          error.what());
    }
    if (is_labeled_ && !spec_.is_fixed()) content_.add_info({info.height, info.width, info.channels}, info.key);
    ++size_;
  }

  void add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info) {
    if (!is_labeled_)
      throw ArgumentError("add(sample, label) is for samples of a labeled() spec: give add() a list of all fields");
    const std::size_t element = size_of(spec_[0].dtype);
    if (sample.size() % element != 0 || (spec_.is_fixed() && std::ssize(sample) != spec_[0].sample_bytes())) {
      throw ArgumentError("sample " + std::to_string(size_) + " has " + std::to_string(sample.size()) + " bytes, not " +
                          std::to_string(spec_[0].sample_bytes()));
    }
    const ConstBufferView fields[] = {{sample.data(), sample.size() / element, spec_[0].dtype}, std::span(&label, 1)};
    add(fields, info);
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  void finish() {
    if (is_finished_) return;
    if (size_ == 0) throw DataError("there are no samples to write into " + folder_.string());
    write();
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      if (spec_.fields[f].num_classes == kCountClasses) spec_.fields[f].num_classes = most_[f] + 1;
    }
    if (const std::string problem = problem_of(spec_); !problem.empty()) throw ArgumentError(problem);
    // Last, because shards without a manifest do not count as a dataset.
    data::write_manifest(
        {std::filesystem::absolute(folder_).string(), options_.split, spec_, shards_, *block_samples_});
    is_finished_ = true;
  }

 private:
  void begin_shard() {
    content_ = data::ShardContent(spec_);
    content_.attributes = {{"split", options_.split}, {"converter", "mn::ShardWriter"}};
  }

  void check_classes(std::span<const ConstBufferView> fields) {
    for (std::size_t f = 0; f < std::min(fields.size(), spec_.fields.size()); ++f) {
      const FieldSpec& spec = spec_.fields[f];
      if (spec.num_classes == 0 || fields[f].dtype != spec.dtype) continue;
      const std::span bytes(static_cast<const std::byte*>(fields[f].data), fields[f].bytes());
      const data::ClassRange range = data::range_of(spec.dtype, bytes);
      const std::int64_t limit = spec.num_classes > 0 ? spec.num_classes : std::int64_t{1} << 31;
      if (!range.is_in(limit)) {
        throw ArgumentError(spec.name + " " + range.outlier() + " of sample " + std::to_string(size_) +
                            " is not in 0 … " + std::to_string(limit - 1));
      }
      most_[f] = std::max(most_[f], range.most);
    }
  }

  [[nodiscard]] bool is_full(std::int64_t next_bytes) const {
    const std::int64_t count = content_.size();
    if (spec_.is_fixed()) return count == data::samples_per_shard(spec_, options_.shard_bytes);
    return count > 0 && content_.samples.bytes() + next_bytes > options_.shard_bytes;
  }

  void write() {
    if (!block_samples_) {
      // All shards of a dataset have equally large blocks. The average length of the first shard's samples decides.
      const std::int64_t varying = content_.samples.bytes() / content_.size() - spec_.sample_bytes();
      block_samples_ = data::default_block_samples(spec_, varying);
    }
    char number[16];
    std::snprintf(number, sizeof number, "-%05zu.h5", shards_.size());
    shards_.push_back(data::write_shard(folder_ / (options_.split + number), content_, *block_samples_));
    begin_shard();
  }

  std::filesystem::path folder_;
  SampleSpec spec_;
  ShardWriterOptions options_;
  bool is_labeled_;
  data::ShardContent content_;                 // samples for the next shard
  std::optional<std::int64_t> block_samples_;  // set by the first shard
  std::vector<data::ShardInfo> shards_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> most_;  // [fields] the largest class so far
  bool is_finished_ = false;
};

ShardWriter::ShardWriter(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options)
    : impl_(std::make_unique<Impl>(std::move(folder), std::move(spec), std::move(options))) {}
ShardWriter::~ShardWriter() = default;
ShardWriter::ShardWriter(ShardWriter&&) noexcept = default;
ShardWriter& ShardWriter::operator=(ShardWriter&&) noexcept = default;

void ShardWriter::add(std::span<const ConstBufferView> fields) { impl_->add(fields, {}); }
void ShardWriter::add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info) {
  impl_->add(sample, label, info);
}
std::int64_t ShardWriter::size() const noexcept { return impl_->size(); }
void ShardWriter::finish() { impl_->finish(); }

}  // namespace mn
