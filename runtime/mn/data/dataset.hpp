/// Datasets: numbered samples of named fields, in shards on shared storage, in memory, or in a program's own source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/data/raw_samples.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn {

/// A damaged sample, as a read or a transform reports it.
struct SampleError {
  std::int64_t position;  ///< position of the sample in the read's `indices`
  std::string what;       ///< names file and sample
};

/// What reading a dataset has cost this process so far.
struct IoStats {
  std::int64_t opens = 0;  ///< files opened for their samples
  std::int64_t bytes = 0;  ///< bytes read from these files
  std::int64_t held = 0;   ///< bytes of memory taken now by blocks with samples that were not read yet
};

/// The result of Dataset::format() for a dataset of shards.
inline constexpr const char* kShardsFormat = "shards";

/// How the samples of a dataset lie in storage. default_order() chooses an order in which they are cheap to read.
struct StorageLayout {
  std::int64_t bytes = 0;          ///< approximate size of all samples together
  std::int64_t files = 0;          ///< number of files; 0: the samples are in memory
  std::int64_t block_samples = 1;  ///< number of neighbors that storage reads only together
  std::int64_t index_bytes = 0;    ///< memory for the indexes of all files, if all were open
  /// true: a block may be large or compressed (a chunk of an HDF5 file), so default_order() avoids reading it twice
  bool is_packed = false;
  /// bytes of memory that one block of each field takes; 0: as many bytes as the samples of a block have in storage
  std::int64_t live_bytes = 0;
};

namespace data {
struct StageNode;
}

/// Options for copies of a dataset's files on a disk of each node, made during a job and removed at its end.
struct StageOptions {
  std::filesystem::path folder = {};  ///< folder on each node; empty: no copies
  /// Limit for the copies of a dataset on one node, in bytes. 0: the free space of the disk is the limit; if `folder`
  /// is in memory (tmpfs), no copies are made. Copies always leave a tenth of the disk free.
  std::int64_t bytes = 0;
  std::int64_t bytes_per_second = std::int64_t{256} << 20;  ///< limit for the copying of one node; 0: no limit
};

/// A dataset: size() samples that never change. All members are thread-safe.
///
/// Example (tests/data/header_examples_test.cpp):
///
///   const auto digits = mn::open_dataset("mnist/train");
///   const std::int64_t indices[] = {0, 1, 2};
///   mn::RawSamples samples;
///   digits->read(indices, samples);  // a column for each field: images and labels
///   const auto labels = samples.columns[1].values<std::int64_t>();
class Dataset {
 public:
  /// The destructor is virtual, because programs hold datasets by pointers to this class.
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const { return do_size(); }
  /// The fields of a sample.
  [[nodiscard]] const SampleSpec& spec() const { return do_spec(); }

  /// Reads the samples with the numbers `indices` into `out`. Each number is in [0, size()), and may be repeated. If
  /// `damaged` is null, read() throws a DataError for a damaged sample; the text names file, sample and remedy.
  /// Otherwise read() appends each damaged sample to `damaged` once. A damaged field is then empty or, if the field is
  /// fixed, zeros.
  void read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged = nullptr) const;

  /// Reads the values of one field. Datasets in files read only this field. Throws as read() does.
  [[nodiscard]] RawColumn read_field(std::span<const std::int64_t> indices, std::size_t field) const;

  /// All metadata of the dataset as text, to open it on other ranks. Empty if only this process has the samples.
  [[nodiscard]] std::string table() const { return do_table(); }
  /// Names the function that opens a dataset from table(): "shards" for open_table(), or the name under which
  /// scatter_dataset() gets a TableOpener. Empty if there is no table.
  [[nodiscard]] std::string format() const { return do_format(); }
  /// A hash of the data. Equal data have equal hashes, on any rank and in any run.
  [[nodiscard]] std::uint64_t fingerprint() const { return do_fingerprint(); }
  /// What reading has cost so far.
  [[nodiscard]] IoStats io() const { return do_io(); }
  /// Names a sample in messages: "sample 5", with the file's name if there are files.
  [[nodiscard]] std::string where(std::int64_t index) const { return do_where(index); }
  /// The weight of each sample in the draws of training (DrawOptions). Empty if an epoch takes each sample once.
  [[nodiscard]] std::vector<double> weights() const { return do_weights(); }
  /// How the samples lie in storage.
  [[nodiscard]] StorageLayout layout() const { return do_layout(); }
  /// Call before the first read: `ranks` ranks share the reading about equally, so this rank keeps fewer blocks in
  /// memory.
  void share(int ranks) { do_share(ranks); }
  /// Limits to `bytes` the memory for blocks that have samples not read yet. If the limit is too small, blocks are
  /// dropped early and read again. Thread-safe.
  void hold_at_most(std::int64_t bytes) const { do_hold_at_most(bytes); }
  /// Copies the dataset's files in the background to the folder of `node` (scatter_dataset() makes the StageNode). The
  /// copying of a file begins when this process first reads from it. Reads use the copy once it is complete and its
  /// checksums are right. If a file can't be copied, or its copy can't be read, this process logs a warning once and
  /// reads from shared storage. Datasets without files ignore the call. Call it before the first read.
  void stage(const StageOptions& options, std::shared_ptr<const data::StageNode> node) {
    do_stage(options, std::move(node));
  }

 protected:
  Dataset() = default;

 private:
  /// Throws ArgumentError if an index is out of range.
  void check(std::span<const std::int64_t> indices) const;
  [[nodiscard]] virtual std::int64_t do_size() const = 0;
  [[nodiscard]] virtual const SampleSpec& do_spec() const = 0;
  virtual void do_read(std::span<const std::int64_t> indices, RawSamples& out,
                       std::vector<SampleError>* damaged) const = 0;
  [[nodiscard]] virtual RawColumn do_read_field(std::span<const std::int64_t> indices, std::size_t field) const;
  [[nodiscard]] virtual std::string do_table() const { return {}; }
  [[nodiscard]] virtual std::string do_format() const { return {}; }
  [[nodiscard]] virtual std::uint64_t do_fingerprint() const;
  [[nodiscard]] virtual IoStats do_io() const { return {}; }
  [[nodiscard]] virtual std::string do_where(std::int64_t index) const { return "sample " + std::to_string(index); }
  [[nodiscard]] virtual std::vector<double> do_weights() const { return {}; }
  [[nodiscard]] virtual StorageLayout do_layout() const { return {.bytes = size() * spec().sample_bytes()}; }
  virtual void do_share(int) {}
  virtual void do_hold_at_most(std::int64_t) const {}
  virtual void do_stage(const StageOptions&, std::shared_ptr<const data::StageNode>) {}
};

/// The folder PREFIX/share/mn/data of the mn with which the program was compiled. It may not exist.
[[nodiscard]] inline std::filesystem::path installed_data() {
  // __FILE__ of an installed header is PREFIX/include/mn/data/dataset.hpp, even if the installation was moved.
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path() / "share/mn/data";
}

/// Opens the dataset NAME, such as "mnist/train", in the first of these folders that has a manifest: NAME,
/// $MN_DATA/NAME, data/NAME, data/NAME beside the executable and in its parent folders, PREFIX/share/mn/data/NAME of
/// the executable's prefix, and `installed`/NAME. The first use of the dataset searches the folders; with
/// scatter_dataset() only the root searches. If no folder has a manifest, the first use throws a DataError that names
/// the command to make the shards.
[[nodiscard]] std::shared_ptr<Dataset> open_dataset(const std::string& name_or_path,
                                                    const std::filesystem::path& installed = installed_data());

/// Opens the dataset that another rank's table() describes. A shard is opened at the first read from it.
[[nodiscard]] std::shared_ptr<Dataset> open_table(const std::string& table);

/// A dataset with as many samples as `dataset`. Each sample has no bytes and the label 0. In a model-parallel job,
/// ranks that read no data take part in the steps with it (ChainerMN's create_empty_dataset).
[[nodiscard]] std::shared_ptr<Dataset> create_empty_dataset(const Dataset& dataset);

}  // namespace mn
