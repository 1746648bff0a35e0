#include "cifar/data.hpp"

#include <torch/torch.h>

#include <mn/data/dataset.hpp>
#include <mn/image/sample_random.hpp>
#include <mn/loader/image_transform.hpp>

namespace mn::jobs {
namespace {

constexpr int kSide = 32;
constexpr int kMargin = 4;  // largest shift of an image, in pixels; uncovered pixels become black
const data::Normalization kNormalization = {.mean = {0.4914F, 0.4822F, 0.4465F}, .stddev = {0.2470F, 0.2435F, 0.2616F}};

/// Shifts and mirrors an image at random. `wide` is the image with a margin of kMargin pixels on all sides.
at::Tensor varied(const at::Tensor& wide, data::SampleRandom random) {
  const int x = random.below(2 * kMargin + 1), y = random.below(2 * kMargin + 1);
  const at::Tensor image = wide.narrow(1, y, kSide).narrow(2, x, kSide);
  return random.below(2) == 1 ? image.flip(2) : image;
}

/// A transform for images of 3 × 32 × 32 bytes. If `vary` is true, shifts and mirrors the images at random.
Transform array_transform(bool vary) {
  return [vary](const RawBatch& batch, std::vector<SampleError>& damaged) {
    const at::Tensor images = default_transform(batch, damaged);  // (N, 3, 32, 32), from 0 to 1
    if (vary) {
      const at::Tensor wide = torch::constant_pad_nd(images, {kMargin, kMargin, kMargin, kMargin});
      for (std::int64_t i = 0; i < images.size(0); ++i) {
        images[i].copy_(varied(wide[i], {batch.seed, batch.epoch, batch.indices[static_cast<std::size_t>(i)]}));
      }
    }
    const auto of_channels = [](const auto& numbers) { return torch::tensor(at::ArrayRef(numbers)).view({3, 1, 1}); };
    return images.sub_(of_channels(kNormalization.mean)).div_(of_channels(kNormalization.stddev));
  };
}

/// The pipeline that decodes image files. If `vary` is true, a random crop shifts images by up to kMargin pixels.
ImagePipeline file_pipeline(bool vary, Device device) {
  const data::CropOptions crop = {.mode = vary ? data::CropMode::kRandomFixed : data::CropMode::kCenterFixed,
                                  .size = kSide,
                                  .resize = vary ? kSide + kMargin : kSide};
  return image_pipeline(crop, kNormalization, data::PixelLayout::kNchw, {}, device);
}

struct Part {
  std::shared_ptr<DataLoader> batches;
  std::int64_t num_classes;
};

Part load_part(const std::string& option, const std::string& name, bool for_training, std::optional<int> workers,
               const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm) {
  const auto part = app::scatter_samples("--" + option, app::open_samples(name), for_training, common, comm);
  const FieldSpec& image = part->spec()[0];
  const bool array = image.kind == FieldKind::kFixed && image.dtype == DType::kUInt8 &&
                     image.shape == std::vector<std::int64_t>{3, kSide, kSide};
  if ((!array && image.kind != FieldKind::kEncoded) || part->spec().num_classes() < 1) {
    throw DataError("--" + option + ": " + name +
                        " holds no labeled images of 3 × 32 × 32 bytes, which `mnshard cifar` "
                        "makes, and no image files" +
                        app::kClassFieldHint,
                    true);
  }
  LoaderOptions how = {.workers = workers};
  if (array) {
    how.transform = array_transform(for_training);
  } else {
    ImagePipeline pipeline = file_pipeline(for_training, comm->device());
    how.transform = std::move(pipeline.transform);
    how.on_device = std::move(pipeline.on_device);
  }
  return {app::batches_of(part, common, *comm, std::move(how)), part->spec().num_classes()};
}

}  // namespace

CifarData open_cifar(const std::string& train, const std::string& val, std::optional<int> workers,
                     const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm) {
  const Part train_part = load_part("train", train.empty() ? "cifar/train" : train, true, workers, common, comm);
  const auto open_val = [&](const std::string& names) {
    const Part part = load_part("val", names, false, workers, common, comm);
    if (part.num_classes > train_part.num_classes) {
      throw DataError("--train and --val have different classes: " + std::to_string(train_part.num_classes) + " and " +
                          std::to_string(part.num_classes),
                      true);
    }
    return part.batches;
  };
  return {train_part.batches, app::validation_sets(val.empty() ? "cifar/val" : val, open_val), train_part.num_classes};
}

}  // namespace mn::jobs
