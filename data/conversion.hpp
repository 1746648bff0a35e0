/// The interface of converters, and run_conversion(), by which any number of processes together make the shards of a
/// dataset. A converter makes shard n from n and the sources alone, so any process can make any shard.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// Options of all converters.
struct ConvertOptions {
  std::filesystem::path out;  ///< the dataset's folder; made if absent
  std::string split = "train";
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< approximate size of a shard's samples
  int threads = 1;                                     ///< each holds one shard in memory
  JobRank me = {};                                     ///< this process's rank in the conversion
  /// Called with this process's progress, by one thread at a time.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

struct Output {
  std::filesystem::path folder;
  std::string split;
  std::size_t shards = 0;  ///< number of shards; known after Conversion::open()
};

class ConversionPart;

/// Tasks of the plan. The processes run them in any order. A task leaves its result in the scratch folder.
struct PlanRound {
  std::size_t tasks;
  std::function<void(std::size_t task)> run;  ///< several threads call it
};

/// The state of an existing shard file. A conversion keeps a kWhole shard, and writes a kUnusable shard again. It stops
/// at a kForeign shard, which has samples of another conversion.
enum class ShardState { kWhole, kUnusable, kForeign };

/// A converter. Its shards are numbered consecutively through all outputs (such as train and val). A unit is the shard
/// or shards that one call of convert() makes. Members are called in the order of their declarations. Several threads
/// call state_of() and convert() at once.
class Conversion {
 public:
  /// Throws UsageError if file names cannot begin with the name of a split.
  explicit Conversion(std::vector<Output> outputs);
  virtual ~Conversion() = default;
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// All inputs that determine the bits of the shards. A run resumes a conversion only if the requests are equal.
  [[nodiscard]] virtual nlohmann::json request() const = 0;
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  /// The output of a shard, and the shard's number in the output. Call it after open().
  [[nodiscard]] std::pair<std::size_t, std::size_t> locate(std::size_t shard) const;
  [[nodiscard]] std::filesystem::path path_of(std::size_t shard) const;
  /// Called on one rank. Looks at the sources, and leaves files in `scratch` for plan_rounds() and open(). Throws if
  /// there is nothing to convert.
  virtual void plan(const std::filesystem::path& scratch) = 0;
  /// Called on all ranks after plan(). Returns the rest of the plan's work. A round begins when all ranks have finished
  /// the previous round. Task t runs on rank t mod size.
  [[nodiscard]] virtual std::vector<PlanRound> plan_rounds(const std::filesystem::path& /*scratch*/) { return {}; }
  /// Called on every rank when the plan is complete. A run that resumes another run calls open() without plan().
  virtual void open(const std::filesystem::path& scratch) = 0;
  [[nodiscard]] virtual std::size_t units() const = 0;
  /// The unit's shards are [first_shard(unit), first_shard(unit + 1)). `unit` is at most units().
  [[nodiscard]] virtual std::size_t first_shard(std::size_t unit) const { return unit; }
  /// The number of steps of the unit, for progress. A step is a file or a sample, for example.
  [[nodiscard]] virtual std::int64_t steps(std::size_t unit) const = 0;
  /// The state of a shard file from an earlier run. May throw DataError if the shard is damaged.
  [[nodiscard]] virtual ShardState state_of(std::size_t shard, const ShardReader& existing) const = 0;
  /// Makes the unit's shards for which part.wants() is true. part.write()'s arguments must not depend on the process.
  virtual void convert(std::size_t unit, ConversionPart& part) = 0;
  /// The spec of an output's samples. `most` is the largest label in the output's shards, −1 if there are no labels.
  [[nodiscard]] virtual SampleSpec spec(std::size_t output, std::int64_t most) const = 0;
  /// Called in the process that finishes last, before it writes a manifest. Throws if the dataset can't be used.
  virtual void check(const ShardTable& /*table*/) {}

 protected:
  std::vector<Output> outputs_;
};

[[nodiscard]] bool has_label(const SampleSpec& spec);
/// Call it only if has_label() is true for the shard's spec.
[[nodiscard]] std::int64_t label_of(const StoredFile& shard, std::int64_t sample);

/// A source file's path, size and time of change, for request(); null if the file is missing.
[[nodiscard]] nlohmann::json source_facts(const std::filesystem::path& file);

/// This process's part of a conversion: the units whose number modulo the number of processes is the process's rank.
class ConversionPart {
 public:
  ConversionPart(Conversion& conversion, const ConvertOptions& options);

  /// Makes the missing shards of this process's units, on several threads. Throws a thread's first failure.
  void run();

  /// The result of this process's part. tables_of() makes the tables from the results of all processes.
  [[nodiscard]] nlohmann::json result() const;
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

  /// False if an earlier run has made the shard. Throws DataError if its file has samples of another conversion.
  [[nodiscard]] bool wants(std::size_t shard);
  /// Publishes a shard. Call write() once for each shard for which wants() returned true.
  void write(std::size_t shard, const ShardContent& content);
  /// Adds to the process's progress. Throws if another thread has failed, because the conversion must end.
  void advance(std::int64_t steps);

 private:
  /// The state of a shard file. Records a whole shard as kept.
  ShardState state_of(std::size_t shard, const std::filesystem::path& path);
  void note(std::size_t shard, ShardInfo info, std::int64_t most);

  Conversion& conversion_;
  const ConvertOptions& options_;
  std::vector<std::size_t> units_;
  std::int64_t total_ = 0;
  std::int64_t shards_ = 0;
  std::atomic<bool> has_failed_ = false;  // a thread of run() has failed

  std::mutex mutex_;  // guards the members below
  std::map<std::size_t, ShardInfo> made_;
  std::vector<std::int64_t> most_;  // [outputs] the largest label
  std::int64_t kept_ = 0;
  std::int64_t done_ = 0;
};

/// The table of each output, from the results of all processes. A missing shard has an empty file name.
[[nodiscard]] std::vector<ShardTable> tables_of(const Conversion& conversion,
                                                const std::vector<nlohmann::json>& results);

struct ConversionResult {
  bool complete = false;           ///< this process finished last, and wrote the manifests
  std::vector<ShardTable> tables;  ///< if complete, the table of each output; else empty
  std::int64_t shards = 0;         ///< shards in this process's part
  std::int64_t kept_shards = 0;    ///< if complete: shards of all processes that an earlier run made
};

/// Runs a conversion. All processes (ranks 0 … size − 1 in options.me) call run_conversion() at the same time. Rank r
/// makes the units whose number modulo size is r. A process waits for other processes only until the plan is complete.
/// Shards are published one by one; the process that finishes last publishes the manifests. After an interruption,
/// another call, with any number of processes, makes the missing and damaged shards. Throws UsageError if an output
/// folder holds a dataset, or shards or files of another conversion, or if another conversion is writing to it. Throws
/// DataError, and the errors of the conversion.
ConversionResult run_conversion(Conversion& conversion, const ConvertOptions& options);

}  // namespace mn::data
