/// What a converter makes: shards that are functions of their numbers.
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

/// A dataset that a conversion makes.
struct Output {
  std::filesystem::path folder;
  std::string split;
  std::size_t shards = 0;  ///< known after Conversion::open()
};

class ConversionPart;

/// Work on a plan that processes share: tasks in any order, each of which leaves what it makes in the scratch folder.
struct PlanRound {
  std::size_t tasks;
  std::function<void(std::size_t task)> run;  ///< thread-safe
};

/// A shard file that is there already: to be kept, to be made again, or of other samples.
enum class ShardState { kWhole, kUnusable, kForeign };

/// What a converter makes. Shards are numbered through its outputs, and made in units of one or several. Calls come in
/// the order of the members; those from state_of() to convert() from several threads.
class Conversion {
 public:
  Conversion() = default;
  virtual ~Conversion() = default;
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// All that the bits of the shards depend on: a conversion resumes only one with an equal request.
  [[nodiscard]] virtual nlohmann::json request() const = 0;
  [[nodiscard]] virtual const std::vector<Output>& outputs() const = 0;
  /// Looks at the sources, on one rank, and leaves in `scratch` what plan_rounds() and open() need. Throws if there is
  /// nothing to convert.
  virtual void plan(const std::filesystem::path& scratch) = 0;
  /// Ends the plan, on all ranks: a round begins when all ranks have finished the round before. Rank t mod size runs
  /// task t.
  [[nodiscard]] virtual std::vector<PlanRound> plan_rounds(const std::filesystem::path& /*scratch*/) { return {}; }
  /// On every rank, and in a run that resumes another without plan().
  virtual void open(const std::filesystem::path& scratch) = 0;
  [[nodiscard]] virtual std::size_t units() const = 0;
  /// The unit's shards are [first_shard(unit), first_shard(unit + 1)); unit may be units().
  [[nodiscard]] virtual std::size_t first_shard(std::size_t unit) const = 0;
  /// For progress: files, samples, … of the unit.
  [[nodiscard]] virtual std::int64_t steps(std::size_t unit) const = 0;
  /// What a shard from an earlier run is. May throw DataError for a damaged one.
  [[nodiscard]] virtual ShardState state_of(std::size_t shard, const ShardReader& existing) const = 0;
  /// Makes the shards of a unit that `part` wants. `part.write` gets equal contents whatever process calls this.
  virtual void convert(std::size_t unit, ConversionPart& part) = 0;
  /// What the samples of an output are. `most`: the largest label in its shards.
  [[nodiscard]] virtual SampleSpec spec(std::size_t output, std::int64_t most) const = 0;
  /// The last process calls it before it writes a manifest. Throws if the dataset makes no sense.
  virtual void check(const ShardTable& table) = 0;
};

/// Whether the samples are data and a label, as labeled() describes them.
[[nodiscard]] bool has_label(const SampleSpec& spec);
/// The label of such a sample.
[[nodiscard]] std::int64_t label_of(const ShardReader& shard, std::int64_t sample);

/// A source file as request() tells it: path, size and time of change; null if it is absent.
[[nodiscard]] nlohmann::json source_facts(const std::filesystem::path& file);

}  // namespace mn::data
