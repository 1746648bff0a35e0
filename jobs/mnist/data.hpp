/// Opens the samples of jobs/mnist.
#pragma once

#include <memory>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>

namespace mn::jobs {

struct MnistData {
  std::shared_ptr<DataLoader> train;  ///< minibatches for training, shuffled
  std::shared_ptr<DataLoader> val;
};

/// Collective: opens MNIST. `path` is a folder with the shards train/ and val/, or with MNIST's four IDX files; rank 0
/// reads IDX files and scatters the samples. If `path` is empty, open_dataset() looks up the shards "mnist/train" and
/// "mnist/val". Throws the same DataError on all ranks if data is missing or damaged.
[[nodiscard]] MnistData open_mnist(const std::string& path, const app::CommonOptions& common,
                                   const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
