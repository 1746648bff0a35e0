// Shards by any number of processes, resumable.
//
// Rank 0 plans, some conversions with the help of all; then each process takes its units, and its threads take them
// from a counter. A shard is published as soon as it is made. Each rank leaves a sign when it has finished; the rank
// that finds the signs of all writes the manifests.
//
// (1) Shards and manifests depend on the request and the sources alone: not on processes, threads or interruptions.
// (2) A published shard is complete. After a kill only missing, damaged or incomplete shards are made again; what is
//     there of another conversion is never touched.
// (3) A manifest exists only where all its shards do.
// (4) In each process the first failure stops all threads and is the one that is thrown. Other processes finish their
//     parts, and no manifest appears.
//
// Cost: memory of one shard a thread, and 100 bytes for each shard on the last rank.
#include "data/run_conversion.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/data/classes.hpp>

#include "data/conversion_folder.hpp"
#include "data/output_folder.hpp"
#include "data/rank_board.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json to_sign(std::size_t shard, const ShardInfo& info) {
  std::uint64_t uuid[2];
  std::memcpy(uuid, info.uuid.data(), sizeof uuid);
  return {shard, info.num_samples, info.bytes, uuid[0], uuid[1], info.header_crc};
}

ShardInfo from_sign(const json& sign, std::string file) {
  ShardInfo info{.file = std::move(file), .num_samples = sign.at(1), .bytes = sign.at(2), .header_crc = sign.at(5)};
  const std::uint64_t uuid[2] = {sign.at(3), sign.at(4)};
  std::memcpy(info.uuid.data(), uuid, sizeof uuid);
  return info;
}

/// The largest class of the second field; −1 if that is not a class.
std::int64_t largest_class(const SampleSpec& spec, const std::vector<RawColumn>& columns) {
  return spec.num_classes() == 0 ? -1 : range_of(spec[1].dtype, columns[1].bytes).most;
}

/// The same of a shard.
std::int64_t largest_label(const ShardReader& reader) {
  std::int64_t most = -1;
  if (!has_label(reader.header().spec)) return most;
  for (std::int64_t i = 0; i < reader.size() && reader.is_small(1); ++i) most = std::max(most, label_of(reader, i));
  for (std::int64_t block = 0; block < reader.num_blocks() && !reader.is_small(1); ++block) {
    most = std::max(most, range_of(DType::kInt64, *reader.load_block(1, block)).most);
  }
  return most;
}

/// The outputs of an opened conversion by the numbers of their shards.
class Outputs {
 public:
  explicit Outputs(const std::vector<Output>& outputs) : outputs_(outputs) {
    for (const Output& output : outputs) firsts_.push_back(firsts_.back() + output.shards);
  }
  [[nodiscard]] std::size_t size() const { return outputs_.size(); }
  [[nodiscard]] const Output& operator[](std::size_t i) const { return outputs_[i]; }
  [[nodiscard]] std::size_t first(std::size_t i) const { return firsts_[i]; }
  [[nodiscard]] std::size_t of_shard(std::size_t shard) const {
    return std::upper_bound(firsts_.begin(), firsts_.end(), shard) - firsts_.begin() - 1;
  }
  [[nodiscard]] std::string file(std::size_t shard) const {
    const std::size_t i = of_shard(shard);
    return shard_name(outputs_[i].split, shard - firsts_[i], outputs_[i].shards);
  }
  [[nodiscard]] fs::path path(std::size_t shard) const { return outputs_[of_shard(shard)].folder / file(shard); }

 private:
  const std::vector<Output>& outputs_;
  std::vector<std::size_t> firsts_ = {0};
};

/// task(0) … task(n − 1) in so many threads. The first failure sets `stop`, after which no task begins, and is thrown
/// when all threads have ended.
template <class Task>
void run_tasks(std::size_t n, int threads, std::atomic<bool>& stop, const Task& task) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < n && !stop; i = next++) task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop = true;
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, n); ++t) workers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

/// This process's part of the shards.
class Part final : public ShardSink {
 public:
  Part(Conversion& conversion, const ConvertOptions& options)
      : conversion_(conversion), options_(options), outputs_(conversion.outputs()), most_(outputs_.size(), -1) {
    const auto size = static_cast<std::size_t>(options.me.size);
    for (std::size_t unit = options.me.rank; unit < conversion.units(); unit += size) units_.push_back(unit);
    for (const std::size_t unit : units_) {
      total_ += conversion.steps(unit);
      shards_ += static_cast<std::int64_t>(conversion.first_shard(unit + 1) - conversion.first_shard(unit));
    }
  }

  void run() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) fs::create_directories(outputs_[i].folder);
    run_tasks(units_.size(), options_.threads, stop_, [&](std::size_t i) { conversion_.convert(units_[i], *this); });
  }

  /// For the other ranks.
  [[nodiscard]] json result() const {
    json made = json::array();
    for (const auto& [shard, info] : made_) made.push_back(to_sign(shard, info));
    return {{"shards", std::move(made)}, {"most", most_}, {"kept", kept_}};
  }
  [[nodiscard]] std::int64_t shards() const noexcept { return shards_; }

  bool wants(std::size_t shard) override {
    const fs::path path = outputs_.path(shard);
    if (!fs::exists(path)) return true;
    const Found found = look_at(shard, path);
    if (found == Found::kForeign) {
      throw DataError(path.string() + " holds other samples than belong there: remove it and start again");
    }
    return found == Found::kUnusable;
  }

  void write(std::size_t shard, const ShardContent& content) override {
    note(shard, write_shard(outputs_.path(shard), content), largest_class(content.spec, content.samples.columns));
  }

  void advance(std::int64_t steps) override {
    // Another thread's failure is the one that is reported.
    if (stop_) throw DataError("stopped");
    const std::lock_guard lock(mutex_);
    done_ += steps;
    if (options_.progress) options_.progress(done_, total_);
  }

 private:
  /// Notes a shard that can be kept.
  Found look_at(std::size_t shard, const fs::path& path) {
    try {
      const ShardReader reader(open_shard(path), std::make_shared<IoCounters>());
      const Found found = conversion_.look_at(shard, reader);
      if (found != Found::kWhole) return found;
      note(shard, describe_shard(path), largest_label(reader));
    } catch (const DataError&) {  // truncated or damaged
      return Found::kUnusable;
    }
    const std::lock_guard lock(mutex_);
    ++kept_;
    return Found::kWhole;
  }

  void note(std::size_t shard, ShardInfo info, std::int64_t most) {
    const std::lock_guard lock(mutex_);
    made_[shard] = std::move(info);
    std::int64_t& all = most_[outputs_.of_shard(shard)];
    all = std::max(all, most);
  }

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

/// This process's part of the stages that end a plan, with all ranks.
void end_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board, const ConvertOptions& options) {
  const auto rank = static_cast<std::size_t>(options.me.rank);
  const auto size = static_cast<std::size_t>(options.me.size);
  for (const Stage& stage : conversion.stages(folder.scratch())) {
    board.work_together([&] {
      std::atomic<bool> stop = false;
      const std::size_t own = stage.tasks > rank ? (stage.tasks - rank - 1) / size + 1 : 0;
      run_tasks(own, options.threads, stop, [&](std::size_t i) { stage.run(rank + i * size); });
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

/// On the other ranks: until the conversion is claimed.
void follow_plan(Conversion& conversion, const ConversionFolder& folder, RankBoard& board,
                 const ConvertOptions& options) {
  board.follow(0, [&] { return folder.is_claimed() || board.has_led(); });
  if (folder.is_claimed()) return;
  end_plan(conversion, folder, board, options);
  board.follow(0, [&] { return folder.is_claimed(); });
}

/// The datasets that all ranks' results make.
std::vector<ShardTable> make_tables(const Conversion& conversion, const std::vector<json>& results) {
  const Outputs outputs(conversion.outputs());
  std::vector<ShardTable> tables;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::vector<ShardInfo> shards(outputs[i].shards);
    std::int64_t most = -1;
    for (const json& result : results) {
      most = std::max(most, result.at("most").at(i).get<std::int64_t>());
      for (const json& sign : result.at("shards")) {
        const std::size_t shard = sign.at(0);
        if (outputs.of_shard(shard) == i) shards[shard - outputs.first(i)] = from_sign(sign, outputs.file(shard));
      }
    }
    tables.emplace_back(fs::absolute(outputs[i].folder).string(), outputs[i].split, conversion.spec(i, most),
                        std::move(shards));
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
  const OutputFolder out(options.out, options.me);
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
    Part part(conversion, options);
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
    for (const json& each : *results) result.kept_shards += each.at("kept").get<std::int64_t>();
    publish(conversion, result.tables);
  }
  folder.leave();
  result.complete = true;
  return result;
}

}  // namespace mn::data
