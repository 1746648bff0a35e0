/// Where jobs/mnist finds its samples.
#pragma once

#include <memory>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>

namespace mn::jobs {

struct MnistData {
  std::shared_ptr<DataLoader> train;  ///< shuffled
  std::shared_ptr<DataLoader> val;
};

/// Collective. `path` is a folder with the shards train/ and val/, or with MNIST's four IDX files, which rank 0 reads
/// and sends out; empty: open_dataset finds the shards "mnist/train" and "mnist/val".
/// Throws DataError on all ranks alike if something is absent or damaged.
[[nodiscard]] MnistData open_mnist(const std::string& path, const app::CommonOptions& common,
                                   const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
