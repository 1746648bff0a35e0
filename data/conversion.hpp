/// The interface of converters: shards as functions of their numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <mn/core/json.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// A dataset made by a conversion.
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
  Conversion() = default;
  virtual ~Conversion() = default;
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// All inputs that determine the bits of the shards: a conversion resumes only a conversion with an equal request.
  [[nodiscard]] virtual nlohmann::json request() const = 0;
  [[nodiscard]] virtual const std::vector<Output>& outputs() const = 0;
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
  [[nodiscard]] virtual std::size_t first_shard(std::size_t unit) const = 0;
  /// For progress: files, samples, … of the unit.
  [[nodiscard]] virtual std::int64_t steps(std::size_t unit) const = 0;
  /// The state of a shard from an earlier run. May throw DataError for a damaged shard.
  [[nodiscard]] virtual ShardState state_of(std::size_t shard, const ShardReader& existing) const = 0;
  /// Makes the shards of a unit that `part` wants. The contents given to `part.write` are equal in every process.
  virtual void convert(std::size_t unit, ConversionPart& part) = 0;
  /// The spec of an output's samples. `most`: the largest label in its shards.
  [[nodiscard]] virtual SampleSpec spec(std::size_t output, std::int64_t most) const = 0;
  /// The last process calls check() before it writes a manifest. Throws if the dataset makes no sense.
  virtual void check(const ShardTable& table) = 0;
};

/// Whether the samples are data and a label, as labeled() describes them.
[[nodiscard]] bool has_label(const SampleSpec& spec);
/// The label of a sample; has_label() must hold.
[[nodiscard]] std::int64_t label_of(const ShardReader& shard, std::int64_t sample);

/// A source file's facts for request(): path, size and time of change; null if the file is missing.
[[nodiscard]] nlohmann::json source_facts(const std::filesystem::path& file);

}  // namespace mn::data
