// Reads samples from indexed HDF5 files.
//
// One field after another: blocks that are not in memory, and samples that are read by themselves, are read many at a
// time, neighbors by one read. What fails there is read again by itself, which says why.
//
// (1) A damaged sample leaves the others of the read whole.
// (2) An error of a file server that may pass is retried, each time with the file opened anew. Where it stays, the
//     samples of that file count as damaged, and the file is not tried again in this read. All other errors are thrown.
//     However many files fail, a read pauses no longer than for one.
// (3) Each damaged sample is reported once, whatever number of its fields is damaged.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <mn/core/error.hpp>
#include <mn/data/hdf5_reading.hpp>
#include <mn/data/retry.hpp>

namespace mn::data {
namespace {

// Contiguous samples of this size are read by themselves: a block would hold but one or two.
constexpr std::int64_t kAloneBytes = 32 << 10;

class Hdf5Reading {
 public:
  Hdf5Reading(OpenIndex& files, RawSamples& out, std::vector<SampleError>* damaged)
      : files_(files), out_(out), damaged_(damaged) {}

  void read(std::span<const std::int64_t> indices) {
    out_.reset(files_.table.spec(), std::ssize(indices));
    for (const std::int64_t index : indices) {
      const auto [file, sample] = files_.table.locate(index);
      items_.push_back({file, sample});
    }
    for (std::size_t f = 0; f < out_.columns.size(); ++f) {
      if (out_.columns[f].sample_bytes > 0) read_field(f);
    }
  }

 private:
  struct Item {
    std::size_t file;
    std::int64_t sample;  // within the file
  };
  /// Items that one read takes: of one block, or neighbors.
  struct Run {
    std::size_t first;
    std::size_t count;
  };

  [[nodiscard]] const Hdf5Array& array(std::size_t file) const { return files_.table.files()[file].arrays[field_]; }
  [[nodiscard]] bool is_alone(std::size_t file) const {
    return array(file).chunk.empty() && out_.columns[field_].sample_bytes >= kAloneBytes;
  }
  [[nodiscard]] std::int64_t in_block(std::size_t file) const {
    return array(file).block_samples(files_.table.spec()[field_]);
  }
  [[nodiscard]] std::span<std::byte> room_of(const Run& run) const {
    RawColumn& column = out_.columns[field_];
    return std::span(column.bytes).subspan(run.first * column.sample_bytes, run.count * column.sample_bytes);
  }

  void read_field(std::size_t field) {
    field_ = field;
    good_.assign(items_.size(), 0);
    const std::vector<Run> missing = missing_runs();
    if (missing.size() > 1) {
      files_.pool.run(missing.size(), [&](std::size_t i) {
        try {
          if (!lost_.contains(items_[missing[i].first].file)) load(missing[i]);
        } catch (...) {  // it is read again
        }
      });
    }
    for (const Run& run : missing) {
      if (good_[run.first + run.count - 1] == 0) load_alone(run);
    }
  }

  /// Of all items but those whose blocks are in memory, which are copied.
  std::vector<Run> missing_runs() {
    std::vector<Run> runs;
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if (take_cached(k)) continue;
      if (!runs.empty() && runs.back().first + runs.back().count == k && follows(k)) {
        ++runs.back().count;
      } else {
        runs.push_back({k, 1});
      }
    }
    return runs;
  }

  /// Whether one read takes item k with the one before it.
  [[nodiscard]] bool follows(std::size_t k) const {
    const Item& before = items_[k - 1];
    const Item& item = items_[k];
    if (item.file != before.file) return false;
    if (is_alone(item.file)) return item.sample == before.sample + 1;
    return item.sample / in_block(item.file) == before.sample / in_block(item.file);
  }

  bool take_cached(std::size_t k) {
    const Item& item = items_[k];
    if (is_alone(item.file)) return false;
    const auto block = files_.find_block(item.file, field_, item.sample / in_block(item.file));
    if (block != nullptr) take(*block, k);
    return block != nullptr;
  }

  void take(const ByteBuffer& block, std::size_t k) {
    const auto to = room_of({k, 1});
    const auto at = static_cast<std::size_t>(items_[k].sample % in_block(items_[k].file)) * to.size();
    std::memcpy(to.data(), block.data() + at, to.size());
    good_[k] = 1;
  }

  /// Reads a run, whose items are then good. Called by several threads, for different runs.
  void load(const Run& run) {
    const Item& first = items_[run.first];
    const auto from = files_.reader(first.file);
    if (is_alone(first.file)) {
      from->read_samples(field_, first.sample, static_cast<std::int64_t>(run.count), room_of(run));
      std::fill_n(good_.begin() + static_cast<std::ptrdiff_t>(run.first), run.count, 1);
      return;
    }
    for (std::size_t k = run.first; k < run.first + run.count; ++k) {  // each is one of the block's uses
      take(*files_.block(*from, first.file, field_, items_[k].sample / in_block(first.file)), k);
    }
  }

  /// Reads a run with retries, and reports its items if they are not good then.
  void load_alone(const Run& run) {
    const std::size_t file = items_[run.first].file;
    if (const auto lost = lost_.find(file); lost != lost_.end()) return report(run, lost->second);
    try {
      with_retries([&] { load(run); }, [&] { files_.close(file); }, pauses_);
    } catch (const FileError& error) {
      if (damaged_ == nullptr || !may_pass(error)) throw;
      lost_.emplace(file, error.what());
      report(run, error.what());
    } catch (const DataError& error) {
      if (damaged_ == nullptr) throw;
      report(run, error.what());
    }
  }

  void report(const Run& run, const std::string& what) {
    const auto room = room_of(run);
    std::memset(room.data(), 0, room.size());
    for (std::size_t k = run.first; k < run.first + run.count; ++k) {
      if (reported_.insert(k).second) damaged_->push_back({static_cast<std::int64_t>(k), what});
    }
  }

  OpenIndex& files_;
  RawSamples& out_;
  std::vector<SampleError>* damaged_;
  std::vector<Item> items_;
  std::set<std::size_t> reported_;
  std::map<std::size_t, std::string> lost_;  // files that the server does not give, and what it says
  std::size_t pauses_ = 0;                   // taken, of kRetryPauses
  // Of the field that is being read:
  std::size_t field_ = 0;
  std::vector<char> good_;  // [samples]
};

}  // namespace

std::int64_t block_room(const Hdf5Table& table, const ShardDatasetOptions& options, int ranks) {
  constexpr std::int64_t kForEach = std::int64_t{64} << 20;
  const std::int64_t shared = ranks == 1 ? options.cache_bytes : kForEach + options.cache_bytes / ranks;
  return std::max(std::min(options.cache_bytes, shared), 2 * table.layout().live_bytes);
}

OpenIndex::OpenIndex(Hdf5Table indexed, const ShardDatasetOptions& given)
    : table(std::move(indexed)),
      options_(given),
      readers_(given.open_shards),
      files_(*this, std::min(given.open_shards, std::ssize(table.files()))),
      room_(block_room(table, given, 1)),
      blocks_(room_) {}

std::shared_ptr<const Hdf5Reader> OpenIndex::reader(std::size_t file) {
  return readers_.get(file, [&]() -> LruCache<Hdf5Reader>::Made {
    return {files_.with_room([&] { return std::make_shared<const Hdf5Reader>(table, file, counters); }), 1};
  });
}

std::uint64_t OpenIndex::key_of(std::size_t file, std::size_t field, std::int64_t number) {
  // A spec has at most 64 fields; 2^18 files of 2^40 samples.
  return static_cast<std::uint64_t>(file) << 46 | static_cast<std::uint64_t>(field) << 40 |
         static_cast<std::uint64_t>(number);
}

std::shared_ptr<const ByteBuffer> OpenIndex::block(const Hdf5Reader& from, std::size_t file, std::size_t field,
                                                   std::int64_t number) {
  return blocks_.get(key_of(file, field, number), [&]() -> LruCache<ByteBuffer>::Made {
    auto made = from.load_block(field, number);
    const std::int64_t bytes = std::ssize(*made);
    const bool stays = table.num_samples() * table.spec().sample_bytes() <= room_;
    return {std::move(made), bytes, stays ? LruCache<ByteBuffer>::kUnlimited : from.samples_in(field, number)};
  });
}

void OpenIndex::share(int ranks) {
  if (table.layout().bytes <= kFullShuffleBytes) return;
  room_ = block_room(table, options_, ranks);
  blocks_.set_capacity(room_);
}

void read_samples(OpenIndex& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged) {
  Hdf5Reading(files, out, damaged).read(indices);
}

}  // namespace mn::data
