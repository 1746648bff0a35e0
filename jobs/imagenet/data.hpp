/// The samples of jobs/imagenet.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>

#include "imagenet/options.hpp"

namespace mn::jobs {

struct ImagenetData {
  std::shared_ptr<DataLoader> train;
  std::shared_ptr<Iterator> train_batches;  ///< minibatches of `train`, with --mixup and --cutmix
  std::shared_ptr<DataLoader> val;
  std::int64_t num_classes = 0;
};

/// Collective. Throws the same DataError or UsageError on all ranks if data is missing, or --train and --val mismatch.
[[nodiscard]] ImagenetData open_imagenet(const ImagenetOptions& options, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
