#include "imagenet_data.hpp"

#include <cmath>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/image_transform.hpp>
#include <mn/train/on_root.hpp>

#include "mean_image.hpp"

namespace mn::jobs {
namespace {

/// The usual validation: the short side becomes 256 for a crop of 224.
constexpr double kResizeOverCrop = 256.0 / 224;

using data::CropMode;

std::shared_ptr<SubDataset> open_part(const std::string& option, const std::string& path,
                                      const std::shared_ptr<Communicator>& comm, const ScatterOptions& scatter) {
  auto part = scatter_dataset(open_dataset(path.empty() ? "imagenet/" + option : path), comm, scatter);
  const SampleSpec& spec = part->spec();
  if (spec.kind != SampleKind::kEncoded || spec.num_classes < 1) {
    throw DataError("--" + option + ": " + (path.empty() ? "imagenet/" + option : path) +
                        " holds no JPEGs with labels; `mnshard images` makes such shards",
                    true);
  }
  return part;
}

MeanImage read_mean(const std::string& path, Communicator& comm) {
  if (path.empty()) return {};
  std::string bytes;
  on_root<DataError>(
      comm, [&] { bytes = read_file(path); }, true);
  return parse_mean_image(comm.bcast_obj(bytes), path);
}

struct Views {
  Transform train;
  Transform val;
};

Views make_views(const ImagenetOptions& options, const MeanImage& mean) {
  const auto layout = options.channels_last ? data::PixelLayout::kNhwc : data::PixelLayout::kNchw;
  const int size = static_cast<int>(options.image_size);
  data::Normalization normalization;
  data::CropOptions train{.mode = CropMode::kRandomResized, .size = size, .min_area = options.min_crop};
  data::CropOptions val{
      .mode = CropMode::kCentre, .size = size, .resize = static_cast<int>(std::lround(size * kResizeOverCrop))};
  if (mean.side > 0) {
    if (mean.side < size) {
      throw UsageError("--mean: " + options.mean + " has " + std::to_string(mean.side) +
                       " pixels a side, fewer than --image-size");
    }
    normalization.mean_image = mean.values;
    train = {.mode = CropMode::kRandomFixed, .size = size, .resize = mean.side};
    val = {.mode = CropMode::kCentreFixed, .size = size, .resize = mean.side};
  }
  return {image_transform(train, normalization, layout), image_transform(val, normalization, layout)};
}

}  // namespace

ImagenetData open_imagenet(const ImagenetOptions& options, const std::shared_ptr<Communicator>& comm) {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  const auto train = open_part("train", options.train, comm, {.shuffle = true, .seed = seed});
  const auto val = open_part("val", options.val, comm, {.seed = seed});
  if (train->spec().num_classes != val->spec().num_classes || train->spec().class_names != val->spec().class_names) {
    throw DataError("--train and --val have different classes: " + std::to_string(train->spec().num_classes) + " and " +
                        std::to_string(val->spec().num_classes) + ", or other names",
                    true);
  }
  const Views views = make_views(options, read_mean(options.mean, *comm));
  const auto loader = [&](const std::shared_ptr<SubDataset>& part, std::int64_t batchsize, const Transform& transform) {
    const int workers = static_cast<int>(options.loaderjob);
    return std::make_shared<DataLoader>(part, LoaderOptions{.batchsize = batchsize,
                                                            .workers = workers,
                                                            .prefetch = workers + 1,
                                                            .transform = transform,
                                                            .device = comm->device(),
                                                            .max_corrupt = options.max_corrupt});
  };
  return {loader(train, options.batchsize, views.train), loader(val, options.val_batchsize, views.val),
          train->spec().num_classes};
}

}  // namespace mn::jobs
