/// Opens the samples of jobs/imagenet.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <mn/app/batches.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>

#include "imagenet/options.hpp"

namespace mn::jobs {

struct ImagenetData {
  std::shared_ptr<DataLoader> train;
  std::shared_ptr<Iterator> train_batches;  ///< minibatches of `train`, mixed as --mixup and --cutmix say
  std::vector<app::ValidationSet> val;
  std::int64_t val_samples = 0;  ///< number of samples of all validation sets
  std::int64_t num_classes = 0;
};

/// The mean image of ChainerMN's ImageNet example, from a NumPy file.
struct MeanImage {
  int side = 0;
  std::vector<float> values;  ///< (3, side, side), 0 … 255
};

/// Parses `bytes`, a .npy file of float32 (3, side, side). For any other content throws a DataError that begins with
/// `source`. Every rank parses the same bytes, so either all ranks throw or none throws.
[[nodiscard]] MeanImage parse_mean_image(std::string_view bytes, const std::string& source);

/// Collective: opens the datasets of --train and --val. Throws the same DataError or UsageError on all ranks if data is
/// missing, or if --train and --val do not match.
[[nodiscard]] ImagenetData open_imagenet(const ImagenetOptions& options, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
