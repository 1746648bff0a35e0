// footprint [--small] [--check] [--samples N] [--epochs N] [--ranks N]: what reading costs one rank of many, without
// any file. Walks the order, the sampler and the caches of a rank over made-up shard tables, for each dataset and
// number of ranks, and prints
//   bytes/byte    bytes read for each byte of the samples used
//   opens/sample  files opened for each sample used; least: what any division between so many ranks must open
//   shards        different ones that the rank opened
//   index, order  most MiB of the table and the indexes of open shards; of the order
//   blocks        most MiB of blocks that are not used up
//   start         seconds from a received table to the first step's indices
// shuffled: as for training; by part: as for evaluation; stored: in stored order, shared by the ranks step by step.
//   --small      a few numbers of ranks, and less of each epoch
//   --check      status 1 if shuffled or by part costs more than it may
//   --samples N  ends each walk after N samples of the rank (default 4000000)
//   --epochs N   each walk is N epochs long (default 1), or ends earlier by --samples
//   --ranks N    this number of ranks alone
// The reader is the dataset's own, over files that count what it asks for.
// footprint real FOLDER: compares that with what it asks sparse files in FOLDER for; status 1 where they differ.
// footprint mixing: how well orders mix samples of sorted classes, beside a full shuffle.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <malloc.h>

#include <mn/core/error.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/scattered_dataset.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/stored_dataset.hpp>

#include "tests/scale/metered_file.hpp"
#include "tests/scale/mixing.hpp"
#include "tests/scale/sparse_shards.hpp"

namespace {

using namespace mn;
using test::MeteredTable;
using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  FieldKind kind;
  std::int64_t sample_bytes;
  std::int64_t samples;
  std::int64_t shards;
  std::int64_t batch;  // of each rank
};

constexpr Case kCases[] = {
    {"12 KB fixed x 1 M", FieldKind::kFixed, 12288, 1'000'000, 46, 64},
    {"50 MB fields x 10 k", FieldKind::kFixed, 50'000'000, 10'000, 20, 2},
    {"110 KB JPEG x 1.28 M", FieldKind::kEncoded, 110'000, 1'281'167, 560, 32},
    {"4 KB tokens x 100 M", FieldKind::kFixed, 4096, 100'000'000, 43'000, 16},
};
enum class Mode { kShuffled, kByPart, kStored };
constexpr const char* kModeNames[] = {"shuffled", "by part", "stored"};

std::int64_t heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

data::ShardTable table_of(const Case& data) {
  const bool is_fixed = data.kind == FieldKind::kFixed;
  const auto shape = is_fixed ? std::vector{data.sample_bytes} : std::vector<std::int64_t>();
  const SampleSpec spec = labeled({.kind = data.kind, .shape = shape}, 1000);
  std::vector<data::ShardInfo> shards(data.shards);
  for (std::int64_t i = 0; i < data.shards; ++i) {
    shards[i].file = data::shard_file_name("train", i, data.shards);
    shards[i].num_samples = data.samples * (i + 1) / data.shards - data.samples * i / data.shards;
    shards[i].bytes = shards[i].num_samples * data.sample_bytes;
  }
  return {"/shared/storage/of/the/cluster/dataset", "train", spec, std::move(shards)};
}

/// One rank's walk.
class Walk {
 public:
  Walk(const Case& data, const std::string& table, Mode mode, int rank, int ranks) : data_(data) {
    const std::int64_t heap = heap_bytes();
    const auto begin = Clock::now();
    table_ = std::make_shared<const MeteredTable>(data::ShardTable::parse(table), data.sample_bytes, meter_);
    (void)table_->hash();
    table_bytes_ = heap_bytes() - heap;
    const std::int64_t n = table_->num_samples();
    SamplerOptions options{.batchsize = data.batch, .rank = rank, .ranks = ranks, .order = {}};
    if (mode == Mode::kByPart) {
      std::vector<std::int64_t> parts(ranks);
      for (int r = 0; r < ranks; ++r) parts[r] = n * (r + 1) / ranks - n * r / ranks;
      first_ = scatter_index(n, rank, ranks).first;
      sampler_ = std::make_unique<PartSampler>(std::move(parts), 1, options);
    } else {
      options.order = data::default_order(n, table_->layout(), mode == Mode::kShuffled);
      sampler_ = std::make_unique<GlobalSampler>(n, 1, options);
    }
    step_ = sampler_->next();
    order_bytes_ = heap_bytes() - heap - table_bytes_;
    start_s_ = std::chrono::duration<double>(Clock::now() - begin).count();
    files_ =
        std::make_unique<data::OpenFiles>(table_, data::StoredDatasetOptions{}, std::make_shared<data::IoCounters>());
    files_->share(ranks);
  }

  void run(std::int64_t most_samples, std::int64_t epochs) {
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      for (; step_ && meter_.samples < static_cast<double>(most_samples); step_ = sampler_->next())
        read(step_->indices);
      if (!step_) step_ = sampler_->next();
    }
  }

  /// Has run() read the same samples from this dataset, too.
  void read_too(const Dataset& dataset) { real_ = &dataset; }

  [[nodiscard]] const test::Meter& meter() const { return meter_; }
  [[nodiscard]] double bytes_per_byte() const {
    return meter_.bytes / (meter_.samples * static_cast<double>(data_.sample_bytes));
  }
  [[nodiscard]] double opens_per_sample() const { return meter_.opens / meter_.samples; }
  [[nodiscard]] std::int64_t index_bytes() const { return table_bytes_ + meter_.most_index_bytes; }
  [[nodiscard]] std::int64_t order_bytes() const { return order_bytes_; }
  [[nodiscard]] double start_s() const { return start_s_; }

 private:
  void read(std::vector<std::int64_t> indices) {
    if (real_ != nullptr) real_->read(indices, read_);
    for (std::int64_t& index : indices) index += first_;
    data::read_samples(*files_, indices, read_, nullptr);
    meter_.samples += static_cast<double>(indices.size());
    meter_.most_block_bytes = std::max(meter_.most_block_bytes, files_->block_bytes());
  }

  const Case& data_;
  std::shared_ptr<const data::ShardTable> table_;
  std::unique_ptr<Sampler> sampler_;
  std::optional<SamplerStep> step_;
  std::int64_t first_ = 0;  // of the rank's part
  std::int64_t table_bytes_ = 0;
  std::int64_t order_bytes_ = 0;
  double start_s_ = 0;
  test::Meter meter_;
  std::unique_ptr<data::OpenFiles> files_;  // after the meter, which its files use
  const Dataset* real_ = nullptr;
  RawSamples read_;
};

struct Settings {
  bool small = false;
  bool check = false;
  std::int64_t samples = 4'000'000;
  std::int64_t epochs = 1;
  std::int64_t ranks = 0;  // 0: those of the table
};

/// Whether it costs no more than it may. A rank that has but a few samples may open a few files for them.
bool within_limits(const Walk& walk) {
  return walk.bytes_per_byte() <= 1.15 && (walk.opens_per_sample() <= 0.01 || walk.meter().opens <= 5) &&
         walk.index_bytes() + walk.order_bytes() <= std::int64_t{64} << 20;
}

bool print_walk(const Case& data, const std::string& table, Mode mode, int ranks, const Settings& settings) {
  Walk walk(data, table, mode, ranks / 2, ranks);
  walk.run(settings.samples, settings.epochs);
  // Each rank opens one file, and each file is opened once, where no border of a part falls on that of a file.
  const double least =
      static_cast<double>(std::max<std::int64_t>(ranks, data.shards)) / static_cast<double>(data.samples);
  const bool good = mode == Mode::kStored || within_limits(walk);
  std::printf("%-21s %5d ranks  %-8s %8.3f  %8.5f (least %.5f) %6zu  %6.1f %6.2f %7.1f %8.3f%s\n", data.name, ranks,
              kModeNames[static_cast<int>(mode)], walk.bytes_per_byte(), walk.opens_per_sample(), least,
              walk.meter().shards.size(), mib(walk.index_bytes()), mib(walk.order_bytes()),
              mib(walk.meter().most_block_bytes), walk.start_s(), good ? "" : "  TOO MUCH");
  std::fflush(stdout);
  return good;
}

int print_table(const Settings& settings) {
  std::vector<int> ranks = {1, 2, 3, 4, 7, 8, 16, 60, 96, 1024};
  if (settings.small) ranks = {1, 7, 96, 1024};
  if (settings.ranks > 0) ranks = {static_cast<int>(settings.ranks)};
  std::printf("%-21s %11s  %-8s %8s  %24s %6s  %6s %6s %7s %8s\n", "", "", "", "bytes/", "opens/", "shards", "index",
              "order", "blocks", "start");
  std::printf("%-21s %11s  %-8s %8s  %24s %6s  %6s %6s %7s %8s\n", "", "", "", "byte", "sample", "", "MiB", "MiB",
              "MiB", "s");
  bool good = true;
  for (const Case& data : kCases) {
    const std::string table = table_of(data).serialize();
    for (const Mode mode : {Mode::kShuffled, Mode::kByPart, Mode::kStored}) {
      if (settings.small && mode == Mode::kStored) continue;
      for (const int number : ranks) good = print_walk(data, table, mode, number, settings) && good;
    }
  }
  return good || !settings.check ? 0 : 1;
}

/// Whether a rank's walk and a real dataset agree within 1 %.
bool compare(const Case& data, const data::ShardTable& table, int ranks) {
  constexpr std::int64_t kBytes = std::int64_t{512} << 20;
  data::StoredDataset dataset(std::make_shared<const data::ShardTable>(table));
  dataset.share(ranks);
  Walk walk(data, table.serialize(), Mode::kShuffled, ranks / 2, ranks);
  walk.read_too(dataset);
  walk.run(kBytes / data.sample_bytes, 2);
  const auto real = dataset.io();
  const auto close = [](double a, double b) { return std::abs(a - b) <= 0.01 * b; };
  const bool good = close(walk.meter().bytes, static_cast<double>(real.bytes)) &&
                    close(walk.meter().opens, static_cast<double>(real.opens));
  std::printf("%-21s %5d ranks: %.0f bytes in %.0f files, the reader: %lld bytes in %lld files%s\n", data.name, ranks,
              walk.meter().bytes, walk.meter().opens, static_cast<long long>(real.bytes),
              static_cast<long long>(real.opens), good ? "" : "  DIFFERENT");
  return good;
}

int compare_all(const std::string& folder) {
  constexpr Case kReal[] = {
      {"12 KB fixed x 100 k", FieldKind::kFixed, 12288, 100'000, 46, 64},
      {"110 KB JPEG x 128 k", FieldKind::kEncoded, 110'000, 128'000, 560, 32},
  };
  bool good = true;
  for (const Case& data : kReal) {
    const std::string path = folder + "/" + std::to_string(data.sample_bytes);
    const auto table = mn::test::make_sparse_shards(path, data.kind, data.samples, data.sample_bytes, data.shards);
    for (const int ranks : {1, 7, 96}) good = compare(data, table, ranks) && good;
    std::filesystem::remove_all(path);
  }
  return good ? 0 : 1;
}

int usage() {
  std::fprintf(stderr,
               "usage: footprint [--small] [--check] [--samples N] [--epochs N] [--ranks N] | real FOLDER | mixing\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "mixing") == 0) return mn::test::print_mixing(), 0;
    if (argc == 3 && std::strcmp(argv[1], "real") == 0) return compare_all(argv[2]);
    Settings settings;
    for (int i = 1; i < argc; ++i) {
      const std::string option = argv[i];
      if (option == "--small") {
        settings.small = true;
        settings.samples = 500'000;
      } else if (option == "--check") {
        settings.check = true;
      } else if ((option == "--samples" || option == "--epochs" || option == "--ranks") && i + 1 < argc) {
        (option == "--samples"  ? settings.samples
         : option == "--epochs" ? settings.epochs
                                : settings.ranks) = std::atoll(argv[++i]);
      } else {
        return usage();
      }
    }
    return print_table(settings);
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "footprint: %s\n", error.what());
    return 1;
  }
}
