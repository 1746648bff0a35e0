/// The options of jobs/imagenet.
#pragma once

#include <cstdint>
#include <string>

#include <mn/app/compile.hpp>
#include <mn/app/setup.hpp>
#include <mn/core/options.hpp>
#include <mn/image/augment_options.hpp>
#include <mn/models/models.hpp>

namespace mn::jobs {

struct ImagenetOptions : app::CommonOptions {
  ImagenetOptions() {
    batchsize = 32;
    epoch = 10;
    optimizer = "sgd";
    weight_decay = 1e-4;
    schedule = "cosine";
    warmup = 5;
    lr_samples = 256;
    cuda_graph = "auto";
  }
  std::string arch = "resnet50";
  std::string compile;  ///< package of mn-compile; "auto": made by rank 0; empty: the network is not compiled
  std::string train;    ///< empty: the dataset "imagenet/train"
  std::string val;      ///< empty: the dataset "imagenet/val"
  std::int64_t val_batchsize = 250;
  std::int64_t loaderjob = 0;
  std::int64_t max_corrupt = 0;
  bool log_samples = false;
  std::int64_t image_size = 224;
  double min_crop = 0.08;
  std::string interpolation = "bilinear";
  std::string randaugment;   ///< "N,M": N operations of magnitude M; empty: none
  std::string color_jitter;  ///< "B,C,S,H": brightness, contrast, saturation, hue; empty: none
  double random_erasing = 0;
  double mixup = 0;
  double cutmix = 0;
  std::string mean;  ///< empty: no mean image
  bool channels_last = false;
  bool test = false;
  double label_smoothing = 0;
  double stochastic_depth = 0;
  double dropout = 0;
  bool recompute = false;
};

/// Declares the options of this job and their checks. `given` holds the defaults now, and the parsed values later.
void declare_options(Options& options, ImagenetOptions& given);

/// The augmentation of --randaugment, --color-jitter and --random-erasing. Throws UsageError if a value is wrong.
[[nodiscard]] data::AugmentOptions augment_options(const ImagenetOptions& given);

/// The network's options, for create_model().
[[nodiscard]] models::ClassifierOptions network_options(const ImagenetOptions& given);

/// The network of --arch for mn-compile (--compile).
[[nodiscard]] app::NetworkSizes compiler_sizes(const ImagenetOptions& given, std::int64_t num_classes);

/// Throws UsageError if two options contradict each other.
void check_options(const ImagenetOptions& given);

/// The learning rate for updates of 256 samples: the value of --lr, or the default for the network and optimizer.
[[nodiscard]] double base_rate(const ImagenetOptions& given);

}  // namespace mn::jobs
