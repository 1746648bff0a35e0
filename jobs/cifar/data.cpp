#include "cifar/data.hpp"

#include <torch/types.h>

#include <mn/data/dataset.hpp>
#include <mn/image/sample_random.hpp>
#include <mn/loader/image_transform.hpp>

namespace mn::jobs {
namespace {

constexpr int kSide = 32;
constexpr int kMargin = 4;  // largest shift of an image, in pixels; uncovered pixels become black
const data::Normalization kNormalization = {.mean = {0.4914F, 0.4822F, 0.4465F}, .stddev = {0.2470F, 0.2435F, 0.2616F}};

/// How an image is varied at random. The default values leave the image unchanged.
struct Shift {
  int x = 0;
  int y = 0;
  bool mirrored = false;
};

Shift random_shift(const RawBatch& batch, std::int64_t index) {
  data::SampleRandom random(batch.seed, batch.epoch, index);
  const int x = random.below(2 * kMargin + 1) - kMargin;
  const int y = random.below(2 * kMargin + 1) - kMargin;
  return {x, y, random.below(2) == 1};
}

/// Shifts an image of 3 × 32 × 32 bytes, and converts it to normalized floats.
void copy_shifted(const std::uint8_t* pixels, const Shift& shift, float* out) {
  for (std::size_t c = 0; c < 3; ++c, pixels += kSide * kSide) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int from_x = (shift.mirrored ? kSide - 1 - x : x) + shift.x;
        const int from_y = y + shift.y;
        const bool inside = from_x >= 0 && from_x < kSide && from_y >= 0 && from_y < kSide;
        const float value = inside ? static_cast<float>(pixels[from_y * kSide + from_x]) / 255 : 0;
        *out++ = (value - kNormalization.mean[c]) / kNormalization.stddev[c];
      }
    }
  }
}

Transform array_transform(bool vary) {
  return [vary](const RawBatch& batch, std::vector<SampleError>&) {
    const std::int64_t n = batch.samples.size();
    at::Tensor result = torch::empty({n, 3, kSide, kSide}, batch.memory.dtype(torch::kFloat));
    for (std::int64_t i = 0; i < n; ++i) {
      const Shift shift = vary ? random_shift(batch, batch.indices[static_cast<std::size_t>(i)]) : Shift{};
      copy_shifted(reinterpret_cast<const std::uint8_t*>(batch.samples.sample(0, i).data()), shift,
                   result[i].data_ptr<float>());
    }
    return result;
  };
}

/// Makes the pipeline that decodes image files. If `vary` is true, a random crop shifts images by up to kMargin pixels.
ImagePipeline file_pipeline(bool vary, Device device) {
  const data::CropOptions crop = {.mode = vary ? data::CropMode::kRandomFixed : data::CropMode::kCenterFixed,
                                  .size = kSide,
                                  .resize = vary ? kSide + kMargin : kSide};
  return image_pipeline(crop, kNormalization, data::PixelLayout::kNchw, {}, device);
}

/// The data for training or the data for validation.
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
