/// Datasets: numbered samples of named fields, in shards on shared storage, in memory or wherever a program's own class
/// finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/data/raw_samples.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn {

/// A damaged sample in a read that continues without it.
struct SampleError {
  std::int64_t position;  ///< in the indices of that read
  std::string what;       ///< names file and sample
};

/// What reading has cost this process so far.
struct IoStats {
  std::int64_t opens = 0;  ///< files opened for their samples
  std::int64_t bytes = 0;  ///< read from them
  std::int64_t held = 0;   ///< bytes in memory at present, of blocks whose samples were not all asked for yet
};

/// Dataset::format() of shards.
inline constexpr const char* kShardsFormat = "shards";

/// How the samples of a dataset lie in storage, which decides in what order it is cheap to read them.
struct StorageLayout {
  std::int64_t bytes = 0;          ///< size of all samples together, about
  std::int64_t files = 0;          ///< that they lie in; 0: memory
  std::int64_t block_samples = 1;  ///< neighbors that can only be read together
  std::int64_t index_bytes = 0;    ///< memory that the indexes of all files would take together
  bool is_packed = false;          ///< blocks are large or compressed: to read one twice costs more than a bad order
  std::int64_t live_bytes = 0;     ///< memory taken while a block of each field is in use; 0: its samples' bytes
};

namespace data {
struct StageNode;
}

/// Copies of shards on a disk of the node, which are made while a job reads and are gone when it ends.
struct StageOptions {
  std::filesystem::path folder = {};  ///< on each node; empty: no copies
  /// Most of all copies of a dataset on a node. 0: as the disk has room, but none where `folder` is memory. A tenth of
  /// the disk stays free in any case.
  std::int64_t bytes = 0;
  std::int64_t bytes_per_second = std::int64_t{256} << 20;  ///< at which a node copies; 0: no limit
};

/// `size()` samples, which never change. All members are thread-safe.
class Dataset {
 public:
  /// Datasets are held by pointers to this class.
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const { return do_size(); }
  /// What each of them is.
  [[nodiscard]] const SampleSpec& spec() const { return do_spec(); }

  /// Reads samples `indices` (each in [0, size()), repeats allowed) into `out`. Throws DataError that names file,
  /// sample and remedy if one is damaged; given `damaged`, lists such samples there instead, each once, and leaves the
  /// fields concerned empty (fixed ones: zeros).
  void read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged = nullptr) const;

  /// For data that every rank can open by itself: all metadata, so that only one rank reads it. Empty where the data is
  /// in this process alone.
  [[nodiscard]] std::string table() const { return do_table(); }
  /// The name of what opens such a table: "shards" for open_table(), another one for an opener that is given to
  /// scatter_dataset. Empty where there is no table.
  [[nodiscard]] std::string format() const { return do_format(); }
  /// A hash: equal for equal data, on any rank and in any run.
  [[nodiscard]] std::uint64_t fingerprint() const { return do_fingerprint(); }
  /// What reading has cost so far.
  [[nodiscard]] IoStats io() const { return do_io(); }
  /// "sample 5" and, where there are files, which: for messages.
  [[nodiscard]] std::string where(std::int64_t index) const { return do_where(index); }
  /// How the samples lie in storage.
  [[nodiscard]] StorageLayout layout() const { return do_layout(); }
  /// Says that `ranks` ranks read the samples, each about as many: each may then keep fewer of them in memory. To be
  /// called before samples are read.
  void share(int ranks) { do_share(ranks); }
  /// Keeps at most so many bytes of what was read with other samples; with too few, bytes are read again. Thread-safe.
  void hold_at_most(std::int64_t bytes) const { do_hold_at_most(bytes); }
  /// Copies files in the background, each when this process first reads from it, to what `node` says (scatter_dataset()
  /// makes it). A copy serves as soon as it is whole and its checksums are right; samples are the same. What can't be
  /// copied, or read from a copy, is read where it lies, with one warning. Datasets that have no files do nothing. To
  /// be called before samples are read.
  void stage(const StageOptions& options, std::shared_ptr<const data::StageNode> node) {
    do_stage(options, std::move(node));
  }

 protected:
  Dataset() = default;

 private:
  [[nodiscard]] virtual std::int64_t do_size() const = 0;
  [[nodiscard]] virtual const SampleSpec& do_spec() const = 0;
  virtual void do_read(std::span<const std::int64_t> indices, RawSamples& out,
                       std::vector<SampleError>* damaged) const = 0;
  [[nodiscard]] virtual std::string do_table() const { return {}; }
  [[nodiscard]] virtual std::string do_format() const { return {}; }
  [[nodiscard]] virtual std::uint64_t do_fingerprint() const;
  [[nodiscard]] virtual IoStats do_io() const { return {}; }
  [[nodiscard]] virtual std::string do_where(std::int64_t index) const { return "sample " + std::to_string(index); }
  [[nodiscard]] virtual StorageLayout do_layout() const { return {.bytes = size() * spec().sample_bytes()}; }
  virtual void do_share(int) {}
  virtual void do_hold_at_most(std::int64_t) const {}
  virtual void do_stage(const StageOptions&, std::shared_ptr<const data::StageNode>) {}
};

/// PREFIX/share/mn/data of the installation whose headers a program was compiled with. A build tree has no such folder.
[[nodiscard]] inline std::filesystem::path installed_data() {
  // This file is PREFIX/include/mn/data/dataset.hpp there, wherever the installation has been moved to.
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path() / "share/mn/data";
}

/// The dataset NAME ("mnist/train"): the first folder with a manifest among NAME itself, $MN_DATA/NAME, data/NAME,
/// data/NAME beside the executable and in its parent folders, and PREFIX/share/mn/data/NAME of the executable's prefix
/// and of `installed`. Touches no file until it is used: in scatter_dataset that is the root alone. Using it throws
/// DataError, with the command that makes the shards, if there is none.
[[nodiscard]] std::shared_ptr<Dataset> open_dataset(const std::string& name_or_path,
                                                    const std::filesystem::path& installed = installed_data());

/// The dataset in shards that another rank's table() describes; opens each shard when it is first read.
[[nodiscard]] std::shared_ptr<Dataset> open_table(const std::string& table);

/// As many samples as `dataset` has, each without a byte and with label 0: for ranks that take part in the steps of
/// a model-parallel job without reading data (ChainerMN's create_empty_dataset).
[[nodiscard]] std::shared_ptr<Dataset> create_empty_dataset(const Dataset& dataset);

}  // namespace mn
