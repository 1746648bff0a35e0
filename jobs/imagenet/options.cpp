#include "imagenet/options.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <mn/app/batches.hpp>
#include <mn/app/compile.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/models/models.hpp>

namespace mn::jobs {
namespace {

void declare_data(Options& options, ImagenetOptions& given) {
  options.add("train", given.train, "DIR", "shards to train on, made by mnshard images; default: imagenet/train");
  options.add("val", given.val, "DIR", "shards to validate on; SET=DIR,SET=DIR: several sets; default: imagenet/val");
  options.add("val_batchsize", given.val_batchsize, "samples of a validation minibatch on each rank", 1,
              app::kMaxSamples);
  app::add_loaderjob(options, given.loaderjob);
  options.add("max-corrupt", given.max_corrupt,
              "damaged samples of an epoch, over all ranks, that may be replaced; one more stops training", 0);
  options.add_flag("log-samples", given.log_samples, "each rank writes the numbers of its samples to DIR/samples");
  app::exclude_cuda_graph(
      options, given, "log-samples", [&given] { return given.log_samples; },
      "the loss keeps the numbers of the samples on the host");
  options.add("image-size", given.image_size, "height and width of the network's input", 1, 4096);
  options.add("min-crop", given.min_crop, "least part of an image's area that a random crop takes", 0.0001, 1);
  options.add("interpolation", given.interpolation, "NAME", "how images are resized: bilinear or bicubic",
              {"bilinear", "bicubic"});
  options.add("mean", given.mean, "FILE",
              "mean image (.npy, 3 × H × H) to subtract: images are resized to its size and cropped at random offsets");
  options.add_flag("channels-last", given.channels_last, "images as (N, H, W, C) in memory: faster on tensor cores");
}

void declare_augmentation(Options& options, ImagenetOptions& given) {
  constexpr double kMaxAlpha = 1e4;
  options.add("randaugment", given.randaugment, "N,M",
              "RandAugment: N random operations of magnitude M (0 to 30) for each training image, say 2,9");
  options.add("color-jitter", given.color_jitter, "B,C,S,H",
              "random changes of brightness, contrast, saturation and hue, say 0.4,0.4,0.4,0.1; H is at most 0.5");
  options.add("random-erasing", given.random_erasing, "probability that a random part of a training image is erased", 0,
              1);
  options.add("mixup", given.mixup, "mix pairs of images and of labels, by shares from Beta(X, X); 0: no mixing", 0,
              kMaxAlpha);
  options.add(
      "cutmix", given.cutmix,
      "paste parts of images into others, by shares from Beta(X, X); with --mixup, one of the two for each image", 0,
      kMaxAlpha);
}

/// `form` describes the list in error messages.
std::vector<double> parse_numbers(const std::string& option, const std::string& text, std::size_t count,
                                  const std::string& form) {
  std::vector<double> numbers;
  bool sound = true;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_number<double>(part);
    sound = sound && number && std::isfinite(*number);
    numbers.push_back(number.value_or(0));
  }
  if (!sound || numbers.size() != count) throw UsageError(option + " \"" + text + "\" is not " + form);
  return numbers;
}

/// The networks that mn-compile knows, and --sizes for its network "resnet", without the number of classes.
const std::map<std::string, nlohmann::json>& resnets() {
  static const std::map<std::string, nlohmann::json> all = {
      {"resnet18", {{"convolutions", 2}, {"blocks", {2, 2, 2, 2}}}},
      {"resnet50", {{"convolutions", 3}, {"blocks", {3, 4, 6, 3}}}},
  };
  return all;
}

void declare_network(Options& options, ImagenetOptions& given) {
  options.add("arch", given.arch, "NAME", "the network: " + join(models::model_names()), models::model_names());
  app::declare_compile(options, given.compile);
  options.add("stochastic-depth", given.stochastic_depth,
              "probability with which training skips the last block for a sample; it rises from 0 over the blocks", 0,
              0.99);
  options.add("dropout", given.dropout, "part of the activations that training drops", 0, 0.99);
  options.add_flag("recompute", given.recompute,
                   "keep no activations of the blocks: less memory, a third more computing");
  app::exclude_cuda_graph(
      options, given, "recompute", [&given] { return given.recompute; },
      "the second computation sets the GPU's random numbers");
}

std::vector<Options::Condition> network_conditions(const ImagenetOptions& given) {
  const auto has_blocks = [&given] { return models::has_blocks(given.arch); };
  const auto has_dropout = [&given] { return models::has_dropout_option(given.arch); };
  const auto is_compiled = [&given] { return resnets().contains(given.arch); };
  return {{"compile", is_compiled, "with another --arch than resnet18 and resnet50"},
          {"compile", [&given] { return !given.channels_last; }, "with --channels-last"},
          {"stochastic-depth", has_blocks, "without a ConvNeXt or ViT as --arch"},
          {"recompute", has_blocks, "without a ConvNeXt or ViT as --arch"},
          {"dropout", has_dropout, "without a ViT as --arch"}};
}

std::vector<Options::Condition> conditions_of(const ImagenetOptions& given) {
  std::vector<Options::Condition> conditions = {{"min-crop", [&given] { return given.mean.empty(); },
                                                 "with --mean, whose crops all have the size of the network's input"}};
  const auto trains = [&given] { return given.evaluate.empty(); };
  for (const char* name :
       {"randaugment", "color-jitter", "random-erasing", "mixup", "cutmix", "min-crop", "label-smoothing",
        "max-corrupt", "log-samples", "test", "compile", "stochastic-depth", "dropout", "recompute"}) {
    conditions.push_back({name, trains, "with --evaluate, which trains nothing"});
  }
  const auto validates = [&given] { return given.find_lr.empty(); };
  for (const char* name : {"test", "val_batchsize"}) {
    conditions.push_back({name, validates, "with --find-lr, which validates nothing"});
  }
  return conditions;
}

}  // namespace

void declare_options(Options& options, ImagenetOptions& given) {
  declare_network(options, given);
  declare_data(options, given);
  declare_augmentation(options, given);
  options.add_flag("test", given.test, "validate and log every 10 iterations, for a trial");
  options.add("label-smoothing", given.label_smoothing, "part of the target spread over all classes", 0, 0.999);
  options.add_check([&given] { check_options(given); });
  options.add_conditions(conditions_of(given));
  options.add_conditions(network_conditions(given));
}

data::AugmentOptions augment_options(const ImagenetOptions& given) {
  constexpr int kMaxOperations = 14;
  data::AugmentOptions options{.erasing = given.random_erasing};
  if (!given.randaugment.empty()) {
    const std::string form = "N,M, two whole numbers: at most " + std::to_string(kMaxOperations) +
                             " operations, of a magnitude from 0 to " + std::to_string(data::kMaxMagnitude);
    const auto numbers = parse_numbers("--randaugment", given.randaugment, 2, form);
    const auto take = [&](double number, int most) {
      if (number >= 0 && number <= most && number == std::floor(number)) return static_cast<int>(number);
      throw UsageError("--randaugment \"" + given.randaugment + "\" is not " + form);
    };
    options.randaugment = take(numbers[0], kMaxOperations);
    options.magnitude = take(numbers[1], data::kMaxMagnitude);
  }
  if (!given.color_jitter.empty()) {
    const std::string form = "B,C,S,H, four numbers: each at least 0, H at most 0.5";
    const auto numbers = parse_numbers("--color-jitter", given.color_jitter, 4, form);
    options.jitter = {numbers[0], numbers[1], numbers[2], numbers[3]};
    if (*std::min_element(numbers.begin(), numbers.end()) < 0 || options.jitter.hue > 0.5) {
      throw UsageError("--color-jitter \"" + given.color_jitter + "\" is not " + form);
    }
  }
  return options;
}

models::ClassifierOptions network_options(const ImagenetOptions& given) {
  return {.image_size = given.image_size,
          .stochastic_depth = given.stochastic_depth,
          .dropout = given.dropout,
          .recompute = given.recompute};
}

app::NetworkSizes compiler_sizes(const ImagenetOptions& given, std::int64_t num_classes) {
  app::NetworkSizes network{"resnet", resnets().at(given.arch)};
  network.sizes.update({{"classes", num_classes}, {"image_size", given.image_size}, {"batch", given.batchsize}});
  return network;
}

void check_options(const ImagenetOptions& given) {
  (void)augment_options(given);
  const std::int64_t least = models::min_image_size(given.arch);
  if (given.image_size < least) {
    throw UsageError("--image-size \"" + std::to_string(given.image_size) + "\" is too small for " + given.arch +
                     ", which needs at least " + std::to_string(least));
  }
  const std::int64_t step = models::image_size_step(given.arch);
  if (given.image_size % step != 0) {
    throw UsageError("--image-size \"" + std::to_string(given.image_size) + "\" is not a multiple of " +
                     std::to_string(step) + ", the size of a patch of " + given.arch);
  }
}

double base_rate(const ImagenetOptions& given) {
  if (given.lr > 0) return given.lr;
  return given.optimizer == "sgd" ? models::sgd_learning_rate(given.arch) : app::default_rate(given.optimizer);
}

}  // namespace mn::jobs
