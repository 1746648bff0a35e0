// Shards by any number of processes, resumable.
//
// Rank 0 makes the plan, for some conversions with the help of all ranks; then each process makes its units, on several
// threads. A shard is published as soon as it is made. Each rank posts a sign when it has finished; the rank that sees
// the signs of all ranks writes the manifests.
//
// (1) Shards and manifests depend on the request and the sources alone: not on processes, threads or interruptions.
// (2) A published shard is complete. After a kill only missing, damaged or incomplete shards are made again; files of
//     another conversion are never touched.
// (3) A manifest exists only if all its shards do.
// (4) In each process the first failure stops all threads, and run_conversion() throws it. Other processes finish their
//     parts, and no manifest appears.
//
// Cost: memory of one shard a thread, and 100 bytes a shard on the last rank.
#include "data/run_conversion.hpp"

#include <string>
#include <utility>

#include <mn/core/error.hpp>

#include "data/conversion_folder.hpp"
#include "data/conversion_part.hpp"
#include "data/locked_folder.hpp"
#include "data/rank_board.hpp"
#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Runs this process's tasks of the rounds that end a plan.
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

/// On rank 0.
void make_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board,
               const ConvertOptions& options) {
  try {
    board.lead([&] { folder.plan(conversion); });
    end_plan(conversion, folder, board, options);
    board.lead([&] { folder.claim(); });
  } catch (...) {
    folder.abandon();
    throw;
  }
}

/// Other ranks follow rank 0 until the conversion is claimed.
void follow_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board,
                 const ConvertOptions& options) {
  board.follow(0, [&] { return folder.is_claimed() || board.has_led(); });
  if (folder.is_claimed()) return;
  end_plan(conversion, folder, board, options);
  board.follow(0, [&] { return folder.is_claimed(); });
}

/// The tables of the outputs, from the results of all ranks.
std::vector<ShardTable> make_tables(const Conversion& conversion, const std::vector<json>& results) {
  const Outputs outputs(conversion.outputs());
  std::vector<ShardTable> tables;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    OutputShards all = shards_of_output(outputs, i, results);
    tables.emplace_back(fs::absolute(outputs[i].folder).string(), outputs[i].split, conversion.spec(i, all.most),
                        std::move(all.shards));
  }
  return tables;
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
  folder.check_free(conversion);
  RankBoard board(folder.scratch(), options.me);
  if (options.me.rank > 0) {
    follow_plan(conversion, folder, board, options);
  } else if (!folder.is_claimed()) {
    make_plan(conversion, folder, board, options);
  }
  const bool was_complete = folder.is_complete(conversion);
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
    result.tables = make_tables(conversion, *results);
    result.kept_shards = kept_shards(*results);
    publish(conversion, result.tables);
  }
  folder.leave();
  result.complete = true;
  return result;
}

}  // namespace mn::data
