#include "imagenet/options.hpp"

#include <mn/core/error.hpp>

#include "models/models.hpp"

namespace mn::jobs {
namespace {

void declare_data(Options& options, ImagenetOptions& given) {
  options.add("train", given.train, "DIR", "shards to train on, made by mnshard images; default: imagenet/train");
  options.add("val", given.val, "DIR", "shards to validate on; default: imagenet/val");
  options.add("val_batchsize", given.val_batchsize, "samples of a validation minibatch on each rank", 1, kMostSamples);
  options.add("loaderjob", given.loaderjob, "threads of each rank that read and decode", 1, 1024);
  options.add("max-corrupt", given.max_corrupt,
              "damaged samples of an epoch, over all ranks, that others may replace before training stops", 0);
  options.add_flag("log-samples", given.log_samples, "each rank writes which samples it trained on to DIR/samples");
  options.add("image-size", given.image_size, "height and width of the network's input", 1, 4096);
  options.add("min-crop", given.min_crop, "least part of an image's area that a random crop takes", 0.0001, 1);
  options.add("mean", given.mean, "FILE",
              "mean image (.npy, 3 × H × H) to subtract: images are resized to its size and cropped at random offsets");
  options.add_flag("channels-last", given.channels_last, "images as (N, H, W, C) in memory: faster on tensor cores");
}

void declare_training(Options& options, ImagenetOptions& given) {
  options.add_flag("test", given.test, "validate and log every 10 iterations: for trying things out");
  options.add("label-smoothing", given.label_smoothing, "part of the target spread over all classes", 0, 0.999);
}

}  // namespace

void declare_options(Options& options, ImagenetOptions& given) {
  options.add("arch", given.arch, "NAME", "the network: alexnet, nin, googlenet, googlenetbn, resnet18 or resnet50",
              model_names());
  add_common_options(options, given);
  declare_data(options, given);
  declare_training(options, given);
}

void check_options(const ImagenetOptions& given) {
  const std::int64_t least = min_image_size(given.arch);
  if (given.image_size < least) {
    throw UsageError("--image-size \"" + std::to_string(given.image_size) + "\" is too small for " + given.arch +
                     ", which needs at least " + std::to_string(least));
  }
}

double base_rate(const ImagenetOptions& given) {
  if (given.lr > 0) return given.lr;
  return given.optimizer == "sgd" ? sgd_learning_rate(given.arch) : default_rate(given.optimizer);
}

}  // namespace mn::jobs
