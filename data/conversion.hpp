/// The interface of converters, shards as functions of their numbers, and their engine: any number of processes make
/// the shards of a conversion together.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/core/ranks.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// Options of all converters.
struct ConvertOptions {
  std::filesystem::path out;  ///< the dataset's folder; made if absent
  std::string split = "train";
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< size of a shard's samples, about
  int threads = 1;                                     ///< threads of this process; each holds one shard in memory
  JobRank me = {};                                     ///< this process's rank among the processes of the conversion
  /// Called with the progress of this process, one call at a time.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

struct Output {
  std::filesystem::path folder;
  std::string split;
  std::size_t shards = 0;  ///< known after Conversion::open()
};

class ConversionPart;

/// Work of the plan that processes share: tasks in any order, each with its result in the scratch folder.
struct PlanRound {
  std::size_t tasks;
  std::function<void(std::size_t task)> run;  ///< thread-safe
};

/// The state of an existing shard file: the conversion keeps the file, writes it again, or stops at foreign samples.
enum class ShardState { kWhole, kUnusable, kForeign };

/// A converter. Shards are numbered through its outputs, and made in units of one or several shards. Members are called
/// in the order of their declarations; state_of() to convert() on several threads.
class Conversion {
 public:
  /// Throws UsageError if the name of a split can't begin the names of files.
  explicit Conversion(std::vector<Output> outputs);
  virtual ~Conversion() = default;
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// All inputs that determine the bits of the shards: a conversion resumes only a conversion with an equal request.
  [[nodiscard]] virtual nlohmann::json request() const = 0;
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  /// Looks at the sources, on one rank, and leaves files in `scratch` for plan_rounds() and open(). Throws if there is
  /// nothing to convert.
  virtual void plan(const std::filesystem::path& scratch) = 0;
  /// Ends the plan, on all ranks: a round begins when all ranks have finished the round before. Rank t mod size runs
  /// task t.
  [[nodiscard]] virtual std::vector<PlanRound> plan_rounds(const std::filesystem::path& /*scratch*/) { return {}; }
  /// Called on every rank; also in a run that resumes another run, without plan().
  virtual void open(const std::filesystem::path& scratch) = 0;
  [[nodiscard]] virtual std::size_t units() const = 0;
  /// The unit's shards are [first_shard(unit), first_shard(unit + 1)); unit may be units().
  [[nodiscard]] virtual std::size_t first_shard(std::size_t unit) const { return unit; }
  /// For progress: files, samples, … of the unit.
  [[nodiscard]] virtual std::int64_t steps(std::size_t unit) const = 0;
  /// The state of a shard from an earlier run. May throw DataError for a damaged shard.
  [[nodiscard]] virtual ShardState state_of(std::size_t shard, const ShardReader& existing) const = 0;
  /// Makes the shards of a unit that `part` wants. The contents given to `part.write` are equal in every process.
  virtual void convert(std::size_t unit, ConversionPart& part) = 0;
  /// The spec of an output's samples. `most`: the largest label in its shards.
  [[nodiscard]] virtual SampleSpec spec(std::size_t output, std::int64_t most) const = 0;
  /// The last process calls check() before it writes a manifest. Throws if the dataset makes no sense.
  virtual void check(const ShardTable& /*table*/) {}

 protected:
  std::vector<Output> outputs_;
};

/// Whether the samples are data and a label, as labeled() describes them.
[[nodiscard]] bool has_label(const SampleSpec& spec);
/// The label of a sample; has_label() must hold.
[[nodiscard]] std::int64_t label_of(const ShardReader& shard, std::int64_t sample);

/// A source file's facts for request(): path, size and time of change; null if the file is missing.
[[nodiscard]] nlohmann::json source_facts(const std::filesystem::path& file);

/// The outputs of an opened conversion by the numbers of their shards.
class Outputs {
 public:
  explicit Outputs(const std::vector<Output>& outputs);
  [[nodiscard]] std::size_t size() const { return outputs_.size(); }
  [[nodiscard]] const Output& operator[](std::size_t i) const { return outputs_[i]; }
  /// Number of the first shard of output `i`.
  [[nodiscard]] std::size_t first(std::size_t i) const { return firsts_[i]; }
  [[nodiscard]] std::size_t of_shard(std::size_t shard) const;
  [[nodiscard]] std::string file(std::size_t shard) const;
  [[nodiscard]] std::filesystem::path path(std::size_t shard) const;

 private:
  const std::vector<Output>& outputs_;
  std::vector<std::size_t> firsts_ = {0};
};

/// The shards of an output, and its largest class, combined from all processes' results.
struct OutputShards {
  std::vector<ShardInfo> shards;  ///< by number in the output; a missing shard has no file
  std::int64_t most = -1;         ///< −1: no class
};

/// The units of this process: unit mod number of processes is its rank.
class ConversionPart {
 public:
  ConversionPart(Conversion& conversion, const ConvertOptions& options);

  /// Makes the missing shards. Throws the first failure of a thread.
  void run();

  /// The JSON for shards_of_output() and kept_shards() in any process.
  [[nodiscard]] nlohmann::json result() const;
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

  /// False if an earlier run made the shard.
  [[nodiscard]] bool wants(std::size_t shard);
  /// Publishes a wanted shard. Call it once for each.
  void write(std::size_t shard, const ShardContent& content);
  /// Adds to the progress of the process. Throws if the conversion is to end.
  void advance(std::int64_t steps);

 private:
  /// The state of a shard file; notes a shard that is kept.
  ShardState state_of(std::size_t shard, const std::filesystem::path& path);
  void note(std::size_t shard, ShardInfo info, std::int64_t most);

  Conversion& conversion_;
  const ConvertOptions& options_;
  Outputs outputs_;
  std::vector<std::size_t> units_;
  std::int64_t total_ = 0;
  std::int64_t shards_ = 0;
  std::atomic<bool> stop_ = false;

  std::mutex mutex_;  // guards the rest
  std::map<std::size_t, ShardInfo> made_;
  std::vector<std::int64_t> most_;  // label, by output
  std::int64_t kept_ = 0;
  std::int64_t done_ = 0;
};

/// The shards of output `i`, from the results of all processes.
[[nodiscard]] OutputShards shards_of_output(const Outputs& outputs, std::size_t i,
                                            const std::vector<nlohmann::json>& results);
/// Number of shards that an earlier run made.
[[nodiscard]] std::int64_t kept_shards(const std::vector<nlohmann::json>& results);

struct ConversionResult {
  bool complete = false;           ///< this process was the last, and wrote the manifests
  std::vector<ShardTable> tables;  ///< tables of each output, if complete
  std::int64_t shards = 0;         ///< shards of this process's part
  std::int64_t kept_shards = 0;    ///< shards of all processes made by an earlier run, if complete
};

/// All processes, options.me of ranks 0 … size − 1, call run_conversion() at once; rank r makes the units with unit mod
/// size = r. Processes wait only for the plan. Shards are published one by one, the manifests after the last process
/// has finished. After an interruption, a repeated call, by any number of processes, makes the missing or damaged
/// shards. Throws UsageError if the folders have a dataset, shards, or another conversion's files, or another
/// conversion is writing there; DataError, and the errors of the conversion.
ConversionResult run_conversion(Conversion& conversion, const ConvertOptions& options);

}  // namespace mn::data
