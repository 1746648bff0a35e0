#include "mnist/data.hpp"

#include <filesystem>

#include <mn/app/batches.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/memory_dataset.hpp>

namespace mn::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPixels = 28 * 28;
constexpr std::int64_t kClasses = 10;

/// The file `name`, or else `name`.gz, in `folder`. Empty if neither file exists.
fs::path idx_file(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const fs::path path = folder / (name + suffix);
    if (fs::exists(path)) return path;
  }
  return {};
}

std::shared_ptr<Dataset> read_part(const fs::path& folder, const std::string& part) {
  const fs::path images = idx_file(folder, part + "-images-idx3-ubyte");
  const fs::path labels = idx_file(folder, part + "-labels-idx1-ubyte");
  if (images.empty() || labels.empty()) {
    throw DataError(folder.string() + " lacks " + part + "-" + (images.empty() ? "images-idx3" : "labels-idx1") +
                    "-ubyte[.gz]: --data wants all four files of MNIST");
  }
  return read_idx_dataset(images, labels);
}

/// True if the folder has MNIST's IDX files, false if it has shards. Throws DataError for any other folder.
bool holds_idx_files(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw DataError("--data: there is no folder " + folder.string());
  if (fs::is_directory(folder / "train") && fs::is_directory(folder / "val")) return false;
  if (!idx_file(folder, "train-images-idx3-ubyte").empty()) return true;
  throw DataError("--data: " + folder.string() +
                  " has neither the folders train and val (make them with `mnshard idx`) nor MNIST's four IDX files");
}

std::shared_ptr<DataLoader> load_part(const std::string& part, const std::shared_ptr<Dataset>& dataset,
                                      const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm) {
  const auto scattered = app::scatter_samples("--data: " + part, dataset, part == "train", common, comm);
  const SampleSpec& spec = scattered->spec();
  if (spec[0].sample_bytes() != kPixels || spec.num_classes() < 1 || spec.num_classes() > kClasses) {
    throw DataError("--data: the samples of " + part + " are not MNIST's, " + std::to_string(kPixels) +
                        " bytes each in at most " + std::to_string(kClasses) +
                        " classes; jobs/imagenet trains on images of any size" + app::kClassFieldHint,
                    true);
  }
  return app::batches_of(scattered, common, *comm);
}

}  // namespace

MnistData open_mnist(const std::string& path, const app::CommonOptions& common,
                     const std::shared_ptr<Communicator>& comm) {
  std::shared_ptr<Dataset> train, val;
  // Only rank 0 looks at folders: a thousand ranks would send the same requests to the file system.
  on_root<DataError>(
      *comm,
      [&] {
        const bool idx = !path.empty() && holds_idx_files(path);
        const std::string folder = path.empty() ? "mnist" : path;
        if (idx && (common.balance || !common.stage.empty())) {
          throw DataError(std::string(common.balance ? "--balance" : "--stage") +
                          " has no effect on the IDX files of " + folder +
                          ", which rank 0 reads alone: `mnshard idx` makes shards of them");
        }
        train = idx ? read_part(folder, "train") : open_dataset(folder + "/train");
        val = idx ? read_part(folder, "t10k") : open_dataset(folder + "/val");
      },
      true);
  return {load_part("train", train, common, comm), load_part("val", val, common, comm)};
}

}  // namespace mn::jobs
