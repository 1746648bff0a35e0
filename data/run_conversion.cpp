// Runs a conversion in any number of processes. An interrupted conversion can be resumed.
//
// Rank 0 makes the plan; in some conversions all ranks take part. Then each process makes its units (one or more shards
// each) on several threads, and publishes each shard at once. When a rank has finished, it writes a sign (RankBoard).
// The last rank, which sees the signs of all ranks, writes the manifests.
//
// (1) Shards and manifests depend on the request and the sources alone, not on processes, threads or interruptions.
// (2) A published shard is complete. After a kill only missing, damaged or incomplete shards are made again.
// (3) A manifest exists only if all of its shards exist.
// (4) In each process the first failure stops all threads, and run_conversion() throws it. Other processes finish their
//     parts, and no manifest appears.
//
// Memory: one shard for each thread; on the last rank also 100 bytes for each shard.
#include "data/conversion.hpp"

#include <string>
#include <utility>

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/locked_folder.hpp"
#include "data/rank_board.hpp"
#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The output folder of a conversion that is not finished. Files are made and removed (−) in this order:
///
///     scratch folder   plan   mark   shards   signs of ranks   manifests   − scratch folder   − mark
///
/// The mark, OUT/conversion.json, is the conversion's request. The scratch folder, OUT/.conversion, has the plan and
/// the ranks' signs.
///
/// (1) A conversion can be resumed after each step: without the mark from the plan, with the mark from the shards.
/// (2) Before the end of the conversion, shards and manifests exist only together with the mark.
/// (3) Files of another conversion are never touched.
class ConversionFolder {
 public:
  ConversionFolder(const fs::path& out, Conversion& conversion)
      : conversion_(conversion),
        mark_(out / "conversion.json"),
        scratch_(out / ".conversion"),
        request_(json_text(conversion.request(), 2) + "\n") {
    make_folders(scratch_);
  }
  ~ConversionFolder() { ::rmdir(scratch_.c_str()); }  // removes the scratch folder only if it is empty
  ConversionFolder(const ConversionFolder&) = delete;
  ConversionFolder& operator=(const ConversionFolder&) = delete;

  [[nodiscard]] const fs::path& scratch() const noexcept { return scratch_; }

  /// Whether the mark exists: this run or an earlier run has then finished the plan.
  [[nodiscard]] bool is_claimed() const {
    std::error_code error;
    try {
      return fs::exists(mark_, error) && read_file(mark_) == request_;
    } catch (const DataError&) {
      return false;  // another rank has just removed the mark
    }
  }

  /// Throws UsageError if the output folders hold other files and the mark is missing. If the mark exists, removes the
  /// temporary files of a killed run.
  void check_free() const {
    if (is_claimed()) {
      for (const Output& output : conversion_.outputs()) remove_abandoned_files(output.folder);
      return;
    }
    std::string obstacle;
    if (fs::exists(mark_)) {
      obstacle = mark_.parent_path().string() +
                 " holds the beginnings of another conversion (conversion.json says which): remove it" + kElsewhere;
    }
    for (const Output& output : conversion_.outputs()) {
      if (obstacle.empty()) obstacle = obstacle_in(output.folder);
    }
    // If the mark exists now, other ranks of this conversion have just made the files, so they are no obstacle.
    if (!obstacle.empty() && !is_claimed()) throw UsageError(obstacle);
  }

  void plan() const {
    clear_scratch();
    conversion_.plan(scratch_);
  }
  void claim() const { write_file(mark_, request_); }

  void clear_scratch() const {
    for (const auto& entry : fs::directory_iterator(scratch_)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("rank-") && !name.starts_with(".rank-")) fs::remove_all(entry.path());
    }
  }

  /// Whether all manifests exist. Then only leave() is left to do.
  [[nodiscard]] bool is_complete() const {
    std::error_code error;
    return std::ranges::all_of(conversion_.outputs(), [&](const Output& output) {
      return fs::exists(output.folder / kDatasetManifest, error);
    });
  }

  /// Removes everything except shards and manifests, the mark last.
  void leave() const {
    std::error_code ignored;
    fs::remove_all(scratch_, ignored);
    fs::remove(mark_, ignored);
  }

 private:
  static constexpr const char* kElsewhere = ", or choose another folder with --out";

  /// Why a new conversion can't use the folder; empty if the folder is free.
  static std::string obstacle_in(const fs::path& folder) {
    std::error_code error;
    if (fs::exists(folder / kDatasetManifest, error)) {
      return folder.string() + " holds a dataset already: remove it" + kElsewhere;
    }
    if (!fs::exists(folder, error)) return "";
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".h5") continue;
      return folder.string() + " holds shards of no resumable conversion (" + entry.path().filename().string() +
             "): remove them" + kElsewhere;
    }
    return "";
  }

  Conversion& conversion_;
  fs::path mark_;
  fs::path scratch_;
  std::string request_;
};

/// Called on all ranks. Runs this process's tasks of Conversion::plan_rounds(); then the plan is complete.
void end_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board, const ConvertOptions& options) {
  const auto rank = static_cast<std::size_t>(options.me.rank);
  const auto size = static_cast<std::size_t>(options.me.size);
  for (const PlanRound& round : conversion.plan_rounds(folder.scratch())) {
    board.work_together([&] {
      const std::size_t own = round.tasks > rank ? (round.tasks - rank - 1) / size + 1 : 0;
      run_tasks(own, options.threads, [&](std::size_t i) { round.run(rank + i * size); });
    });
  }
}

void make_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board,
               const ConvertOptions& options) {
  try {
    board.lead([&] { folder.plan(); });
    end_plan(conversion, folder, board, options);
    board.lead([&] { folder.claim(); });
  } catch (...) {
    folder.clear_scratch();
    throw;
  }
}

/// Called on ranks other than 0. Waits for rank 0's plan, takes part in its rounds, and returns when the mark exists.
void follow_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board,
                 const ConvertOptions& options) {
  board.follow(0, [&] { return folder.is_claimed() || board.has_led(); });
  if (folder.is_claimed()) return;
  end_plan(conversion, folder, board, options);
  board.follow(0, [&] { return folder.is_claimed(); });
}

std::vector<ShardTable> read_tables(const Conversion& conversion) {
  std::vector<ShardTable> tables;
  for (const Output& output : conversion.outputs()) tables.push_back(read_manifest(output.folder));
  return tables;
}

void publish(Conversion& conversion, const std::vector<ShardTable>& tables) {
  for (const ShardTable& table : tables) {
    for (std::size_t i = 0; i < table.shards().size(); ++i) {
      if (!table.shards()[i].file.empty()) continue;
      throw DataError("shard " + std::to_string(i) + " of " + table.folder() + " is missing: run the command again");
    }
    conversion.check(table);
  }
  for (const ShardTable& table : tables) write_manifest(table);
}

}  // namespace

ConversionResult run_conversion(Conversion& conversion, const ConvertOptions& options) {
  const LockedFolder out(options.out, options.me);
  const ConversionFolder folder(options.out, conversion);
  folder.check_free();
  RankBoard board(folder.scratch(), options.me);
  if (options.me.rank > 0) {
    follow_plan(conversion, folder, board, options);
  } else if (!folder.is_claimed()) {
    make_plan(conversion, folder, board, options);
  }
  const bool was_complete = folder.is_complete();
  ConversionResult result;
  json own;
  if (!was_complete) {
    conversion.open(folder.scratch());
    ConversionPart part(conversion, options);
    part.run();
    result.shards = part.shards();
    own = part.result();
  }
  const auto results = board.finish(own);
  if (!results) return result;
  if (was_complete) {
    result.tables = read_tables(conversion);
  } else {
    result.tables = tables_of(conversion, *results);
    for (const json& each : *results) result.kept_shards += each.at("kept").get<std::int64_t>();
    publish(conversion, result.tables);
  }
  folder.leave();
  result.complete = true;
  return result;
}

}  // namespace mn::data
