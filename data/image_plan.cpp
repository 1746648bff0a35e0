// The list of images and their division into shards lie in these files:
//
//   records  for each image, in the order of the list: its label (int32), its key
//   ends     for each image the end of its record in `records` (uint64)
//   sizes    for each image its bytes (uint32; larger ones count as 4 GiB); only until the end of finish()
//   shards   for each shard the position of its first image (int64), then the number of images
//
// A position is an image's index in the shuffled order, which is computed from the seed. So `shards` needs only the
// first position of each shard.
#include "data/image_plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <mn/core/error.hpp>
#include <mn/data/order.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecordsName = "records";
constexpr const char* kEndsName = "ends";
constexpr const char* kSizesName = "sizes";
constexpr const char* kShardsName = "shards";

EpochOrder order_of(std::int64_t images, const ImageDivision& division) {
  return {images, {.shuffle = division.shuffle}, division.seed, 0};
}

template <class T>
std::vector<T> read_all(const fs::path& path) {
  const File file(path, File::Mode::kRead);
  std::vector<T> values(file.size() / sizeof(T));
  file.read_at(0, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

void FileAppender::append(std::span<const std::byte> bytes) {
  constexpr std::size_t kPiece = 1 << 20;
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  if (pending_.size() >= kPiece) flush();
}

void FileAppender::flush() {
  file_.write_at(written_, pending_);
  written_ += pending_.size();
  pending_.clear();
}

ImagePlanWriter::ImagePlanWriter(fs::path folder)
    : folder_(std::move(folder)),
      records_(folder_ / kRecordsName),
      ends_(folder_ / kEndsName),
      sizes_(folder_ / kSizesName) {}

void ImagePlanWriter::add(std::string_view key, std::int32_t label, std::int64_t bytes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
  records_.append_value(label);
  records_.append(std::as_bytes(std::span(key)));
  ends_.append_value(records_.size());
  sizes_.append_value(static_cast<std::uint32_t>(std::clamp<std::int64_t>(bytes, 0, kMax)));
  ++size_;
}

void ImagePlanWriter::finish(const ImageDivision& division) {
  for (FileAppender* file : {&records_, &ends_, &sizes_}) file->flush();
  const auto sizes = read_all<std::uint32_t>(folder_ / kSizesName);
  const EpochOrder order = order_of(size_, division);
  FileAppender shards(folder_ / kShardsName);
  std::int64_t filled = 0;
  shards.append_value(std::int64_t{0});
  for (std::int64_t position = 0; position < size_; ++position) {
    const std::int64_t bytes = sizes[order(position)];
    if (filled > 0 && filled + bytes > division.shard_bytes) {
      shards.append_value(position);
      filled = 0;
    }
    filled += bytes;
  }
  shards.append_value(size_);
  shards.flush();
  fs::remove(folder_ / kSizesName);
}

void ImagePlan::damaged() const {
  throw DataError(records_.path().parent_path().string() +
                  " is damaged: remove the output folder of the conversion, and start again");
}

ImagePlan::ImagePlan(const fs::path& folder, const ImageDivision& division)
    : division_(division),
      records_(folder / kRecordsName, File::Mode::kRead),
      ends_(folder / kEndsName, File::Mode::kRead),
      firsts_(read_all<std::int64_t>(folder / kShardsName)) {
  if (firsts_.size() < 2 || ends_.size() != firsts_.back() * sizeof(std::uint64_t)) damaged();
}

std::vector<ImageFile> ImagePlan::images_of(std::size_t shard) const {
  const EpochOrder order = order_of(size(), division_);
  std::vector<ImageFile> images;
  images.reserve(images_in(shard));
  for (std::int64_t position = firsts_[shard]; position < firsts_[shard + 1]; ++position) {
    images.push_back(image(order(position)));
  }
  return images;
}

ImageFile ImagePlan::image(std::int64_t index) const {
  std::uint64_t ends[2] = {0, 0};  // ends of the records of the previous image and of this image
  const std::int64_t from = std::max<std::int64_t>(index - 1, 0);
  ends_.read_at(from * sizeof(std::uint64_t), std::as_writable_bytes(std::span(ends).subspan(index == 0 ? 1 : 0)));
  ImageFile file;
  if (ends[1] > records_.size() || ends[1] < ends[0] + sizeof file.label) damaged();
  std::string record(ends[1] - ends[0], '\0');
  records_.read_at(ends[0], std::as_writable_bytes(std::span(record)));
  std::memcpy(&file.label, record.data(), sizeof file.label);
  file.key = record.substr(sizeof file.label);
  return file;
}

}  // namespace mn::data
