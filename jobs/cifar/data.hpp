/// CIFAR's images: shards of arrays, as `mnshard cifar` makes them, or of image files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <mn/app/app.hpp>

namespace mn::jobs {

struct CifarData {
  std::shared_ptr<DataLoader> train;  ///< float32 (N, 3, 32, 32): shifted by up to 4 pixels, half of them mirrored
  std::shared_ptr<DataLoader> val;    ///< the same as they are
  std::int64_t num_classes;
};

/// Collective. Empty names: the datasets cifar/train and cifar/val. `workers`: as LoaderOptions has them. Throws the
/// same DataError or UsageError on all ranks if they are not such images, or of different classes.
[[nodiscard]] CifarData open_cifar(const std::string& train, const std::string& val, std::optional<int> workers,
                                   const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
