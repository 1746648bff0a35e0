/// Opens CIFAR's images: shards of arrays that `mnshard cifar` has made, or shards of image files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/app/app.hpp>

namespace mn::jobs {

struct CifarData {
  std::shared_ptr<DataLoader> train;    ///< float32 (N, 3, 32, 32): shifted by up to 4 pixels, half of them mirrored
  std::vector<app::ValidationSet> val;  ///< float32 (N, 3, 32, 32), not shifted or mirrored
  std::int64_t num_classes;
};

/// Collective: opens the datasets `train` and `val`; an empty name means cifar/train or cifar/val. `workers` is
/// LoaderOptions::workers. Throws the same DataError or UsageError on all ranks if the samples are not images with
/// labels, or if the two datasets have different classes.
[[nodiscard]] CifarData open_cifar(const std::string& train, const std::string& val, std::optional<int> workers,
                                   const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
