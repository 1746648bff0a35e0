#include "imagenet/data.hpp"

#include <algorithm>
#include <cstring>
#include <regex>

#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>
#include <mn/image/augment_options.hpp>
#include <mn/loader/image_transform.hpp>
#include <mn/loader/mixed_batches.hpp>

namespace mn::jobs {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPreamble = 10;  // bytes before the header in version 1: magic, version, header length

std::size_t header_bytes(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
}

using data::CropMode;

std::shared_ptr<SubDataset> open_part(const std::string& option, const std::string& path,
                                      const ImagenetOptions& options, const std::shared_ptr<Communicator>& comm) {
  const auto dataset = app::open_samples(path.empty() ? "imagenet/" + option : path);
  auto part = app::scatter_samples("--" + option, dataset, option == "train", options, comm);
  const SampleSpec& spec = part->spec();
  if (spec[0].kind != FieldKind::kEncoded || spec.num_classes() < 1) {
    throw DataError("--" + option + ": " + (path.empty() ? "imagenet/" + option : path) +
                        " holds no images with labels; `mnshard images` makes such shards" + app::kClassFieldHint,
                    true);
  }
  return part;
}

/// Throws DataError if --train and --val have different classes. --val may lack the last classes; both may lack names.
void check_same_classes(const SampleSpec& train, const SampleSpec& val) {
  const std::string differ = "--train and --val have different classes: ";
  if (val.num_classes() > train.num_classes()) {
    throw DataError(differ + std::to_string(train.num_classes()) + " and " + std::to_string(val.num_classes()), true);
  }
  const auto& train_names = train[1].class_names;
  const auto& val_names = val[1].class_names;
  const std::size_t named = std::min(train_names.size(), val_names.size());
  for (std::size_t k = 0; k < named; ++k) {
    if (train_names[k] == val_names[k]) continue;
    throw DataError(differ + "number " + std::to_string(k) + " is \"" + train_names[k] + "\" and \"" + val_names[k] +
                        "\"; make a folder or a name in --val for each class, even a class without images",
                    true);
  }
}

MeanImage read_mean(const std::string& path, Communicator& comm) {
  if (path.empty()) return {};
  std::string bytes;
  on_root<DataError>(
      comm, [&] { bytes = read_file(path); }, true);
  return parse_mean_image(comm.bcast_obj(bytes), path);
}

struct Views {
  ImagePipeline train;
  ImagePipeline val;
};

Views make_views(const ImagenetOptions& options, const MeanImage& mean, Device device) {
  const auto layout = options.channels_last ? data::PixelLayout::kNhwc : data::PixelLayout::kNchw;
  const int size = static_cast<int>(options.image_size);
  data::Normalization normalization;
  data::CropOptions train{.mode = CropMode::kRandomResized, .size = size, .min_area = options.min_crop};
  data::CropOptions val{.mode = CropMode::kCenter, .size = size, .resize = data::usual_resize(size)};
  if (mean.side > 0) {
    if (mean.side < size) {
      throw UsageError("--mean: " + options.mean + " has " + std::to_string(mean.side) +
                       " pixels a side, fewer than --image-size");
    }
    normalization.mean_image = mean.values;
    train = {.mode = CropMode::kRandomFixed, .size = size, .resize = mean.side};
    val = {.mode = CropMode::kCenterFixed, .size = size, .resize = mean.side};
  }
  if (options.interpolation == "bicubic") train.interpolation = val.interpolation = data::Interpolation::kBicubic;
  return {image_pipeline(train, normalization, layout, augment_options(options), device),
          image_pipeline(val, normalization, layout, {}, device)};
}

}  // namespace

MeanImage parse_mean_image(std::string_view bytes, const std::string& source) {
  const auto fail = [&](const std::string& how) { throw DataError(source + " " + how, true); };
  if (bytes.size() < kPreamble || !bytes.starts_with(kMagic) || bytes[6] != 1) fail("is not a NumPy file (.npy)");
  const std::size_t first = kPreamble + header_bytes(bytes);
  if (first > bytes.size()) fail("is cut off");
  const std::string header(bytes.substr(kPreamble, first - kPreamble));
  static const std::regex kShape(R"('shape': \(3, ([0-9]{1,5}), ([0-9]{1,5})\))");
  std::smatch shape;
  if (header.find("'descr': '<f4'") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos || !std::regex_search(header, shape, kShape) ||
      shape[1] != shape[2]) {
    fail("is not a mean image: float32 of the shape (3, H, H) is wanted, it has " + first_line_of(header));
  }
  MeanImage image;
  image.side = std::stoi(shape[1]);
  const std::size_t count = std::size_t{3} * image.side * image.side;
  const std::size_t size = count * sizeof(float);
  if (bytes.size() - first != size)
    fail("has " + std::to_string(bytes.size() - first) + " bytes of values instead of " + std::to_string(size));
  image.values.resize(count);
  std::memcpy(image.values.data(), bytes.data() + first, size);
  return image;
}

ImagenetData open_imagenet(const ImagenetOptions& options, const std::shared_ptr<Communicator>& comm) {
  const auto train = open_part("train", options.train, options, comm);
  const Views views = make_views(options, read_mean(options.mean, *comm), comm->device());
  app::CommonOptions for_val = options;
  for_val.batchsize = options.val_batchsize;
  const auto loader = [&](const std::shared_ptr<SubDataset>& part, const app::CommonOptions& common,
                          const ImagePipeline& images) {
    return app::batches_of(part, common, *comm,
                           {.workers = app::loader_workers(options.loaderjob),
                            .transform = images.transform,
                            .on_device = images.on_device,
                            .max_corrupt = options.max_corrupt});
  };
  const std::int64_t num_classes = train->spec().num_classes();
  const auto train_loader = loader(train, options, views.train);
  std::shared_ptr<Iterator> train_batches = train_loader;
  const data::MixOptions mix = {.mixup = options.mixup, .cutmix = options.cutmix};
  if (mix.mixup > 0 || mix.cutmix > 0) {
    train_batches = std::make_shared<MixedBatches>(train_loader, mix, num_classes, train->options().seed);
  }
  std::int64_t val_samples = 0;
  const auto open_val = [&](const std::string& names) {
    const auto val = open_part("val", names, options, comm);
    check_same_classes(train->spec(), val->spec());
    val_samples += val->global_size();
    return loader(val, for_val, views.val);
  };
  auto validations = app::validation_sets(options.val.empty() ? "imagenet/val" : options.val, open_val);
  return {train_loader, train_batches, std::move(validations), val_samples, num_classes};
}

}  // namespace mn::jobs
