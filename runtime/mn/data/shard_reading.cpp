// Reads samples from shards.
//
// A read first finds each sample's shard, its small fields and the lengths of its varying ones, then reads one field
// after another: from blocks of several samples by way of the cached block, from blocks of one straight into the
// result, neighbors by one read. Shards that are to be opened, and blocks that are not in memory, are read many at a
// time; what fails there is read again by itself, which says why.
//
// (1) A damaged sample leaves the others of the read whole: varying fields close up, fixed ones keep their room.
// (2) An error of a file server that may pass is retried, each time with the file opened again, as a stale handle stays
//     stale. Where it stays, the samples concerned count as damaged. All other errors are thrown. However many shards
//     fail, a read pauses no longer than for one.
// (3) Each damaged sample is reported once, whatever number of its fields is damaged.
//
// Cost: a binary search and a look into the caches for each sample; a pread for each run of neighbors or block.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reading.hpp>

namespace mn::data {
namespace {

class Reading {
 public:
  Reading(OpenShards& shards, RawSamples& out, std::vector<SampleError>* damaged)
      : shards_(shards), spec_(shards.table.spec()), out_(out), damaged_(damaged) {}

  void read(std::span<const std::int64_t> indices) {
    out_.reset(spec_, std::ssize(indices));
    items_.reserve(indices.size());
    open_many(indices);
    lengths_.resize(spec_.fields.size());
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      if (!is_fixed(f)) lengths_[f].resize(indices.size());
    }
    for (const std::int64_t index : indices) locate(index);
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      if (!is_small(spec_, f, shards_.table.form())) read_field(f);
    }
  }

 private:
  struct Item {
    std::size_t shard;
    std::int64_t sample;     // within the shard
    std::int64_t block = 0;  // that it is in
    bool is_alone = false;   // there
    bool readable = false;
  };
  /// Items that one read takes: of one block, or neighbors.
  struct Run {
    std::size_t first;
    std::size_t count;
  };

  [[nodiscard]] bool is_fixed(std::size_t field) const { return spec_.fields[field].kind == FieldKind::kFixed; }
  [[nodiscard]] std::int64_t length(std::size_t field, std::size_t k) const {
    return lengths_[field].empty() ? out_.columns[field].sample_bytes : lengths_[field][k];
  }

  /// Adds an item, with its small fields and lengths.
  void locate(std::int64_t index) {
    const auto [shard, sample] = shards_.table.locate(index);
    const std::size_t k = items_.size();
    Item item{shard, sample};
    item.readable = attempt(k, 1, shard, [&, sample = sample](const ShardReader& from) {
      item.block = from.block_of(sample);
      item.is_alone = from.samples_in(item.block) == 1;
      for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
        if (from.is_small(f)) {
          from.copy_small(f, sample, room(f, k));
        } else if (!is_fixed(f)) {
          lengths_[f][k] = from.length(f, sample);
        }
      }
    });
    items_.push_back(item);
    if (item.readable) return;
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      if (is_small(spec_, f, shards_.table.form())) std::memset(room(f, k), 0, out_.columns[f].sample_bytes);
    }
  }

  /// Position of sample k of a fixed field.
  [[nodiscard]] std::byte* room(std::size_t field, std::size_t k) const {
    RawColumn& column = out_.columns[field];
    return column.bytes.data() + static_cast<std::int64_t>(k) * column.sample_bytes;
  }

  /// Opens the shards that these samples are the first of.
  void open_many(std::span<const std::int64_t> indices) {
    std::vector<std::size_t> wanted;
    for (const std::int64_t index : indices) {
      const std::size_t shard = shards_.table.locate(index).first;
      if (wanted.empty() || wanted.back() != shard) wanted.push_back(shard);
    }
    std::ranges::sort(wanted);
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    std::erase_if(wanted, [&](std::size_t shard) { return shards_.is_open(shard); });
    try_all(
        wanted.size(), [&](std::size_t i) { return wanted[i]; },
        [&](std::size_t i) { (void)shards_.reader(wanted[i]); });
  }

  /// task(0) … task(n − 1), each for shard_of(i), many at a time. What throws is left to those who do it again by
  /// themselves.
  template <class ShardOf, class Task>
  void try_all(std::size_t n, const ShardOf& shard_of, const Task& task) {
    if (n < 2) return;
    std::mutex mutex;
    shards_.pool.run(n, [&](std::size_t i) {
      try {
        task(i);
      } catch (const FileError& error) {
        const std::lock_guard lock(mutex);
        if (may_pass(error)) failed_.insert_or_assign(shard_of(i), error.what());
      } catch (...) {
      }
    });
  }

  void read_field(std::size_t field) {
    field_ = field;
    column_ = &out_.columns[field];
    begin_ = 0;
    offsets_.assign(1, 0);
    for (std::size_t k = 0; k < items_.size(); ++k) offsets_.push_back(offsets_.back() + length(field, k));
    column_->bytes.resize(offsets_.back());  // at once: a vector that grows copies itself again and again
    good_.assign(items_.size(), 0);
    const std::vector<Run> missing = missing_runs();
    if (missing.size() == 1) load_alone(missing[0]);
    try_all(
        missing.size(), [&](std::size_t i) { return items_[missing[i].first].shard; },
        [&](std::size_t i) { load_with_next(missing[i]); });
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if (items_[k].readable && good_[k] == 0) load_alone({k, 1});
      finish(k, good_[k] != 0);
    }
    column_->bytes.resize(begin_);
  }

  /// Reads all items but those whose blocks are in memory, which are copied.
  std::vector<Run> missing_runs() {
    std::vector<Run> runs;
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if (!items_[k].readable || take_cached(k)) continue;
      if (!runs.empty() && runs.back().first + runs.back().count == k && is_of_run(items_[runs.back().first], k)) {
        ++runs.back().count;
      } else {
        runs.push_back({k, 1});
      }
    }
    return runs;
  }

  /// Whether one read takes item k with those from `first` on, which stand before it.
  [[nodiscard]] bool is_of_run(const Item& first, std::size_t k) const {
    const Item& item = items_[k];
    if (item.shard != first.shard || item.is_alone != first.is_alone) return false;
    return item.block == (item.is_alone ? items_[k - 1].block + 1 : first.block);
  }

  [[nodiscard]] std::span<std::byte> room_of(const Run& run) const {
    return std::span(column_->bytes)
        .subspan(offsets_[run.first], offsets_[run.first + run.count] - offsets_[run.first]);
  }

  bool take_cached(std::size_t k) {
    const Item& item = items_[k];
    if (item.is_alone) return false;
    (void)attempt(k, 1, item.shard, [&](const ShardReader& from) {
      const auto block = shards_.cache.find_block(item.shard, field_, item.block);
      if (block != nullptr) take(from, *block, k);
    });
    return good_[k] != 0;
  }

  void take(const ShardReader& from, const ShardReader::Block& block, std::size_t k) {
    const auto to = room_of({k, 1});
    if (!to.empty()) std::memcpy(to.data(), block.data() + from.offset_in_block(field_, items_[k].sample), to.size());
    good_[k] = 1;
  }

  /// Reads a run; items that are good have good_ afterwards. Called by several threads, for different runs.
  void load(const ShardReader& from, const Run& run) {
    const std::size_t end = run.first + run.count;
    const Item& first = items_[run.first];
    if (!first.is_alone) {
      for (std::size_t k = run.first; k < end; ++k) {  // each is one of the block's uses
        const auto block = shards_.cache.block(from, first.shard, field_, first.block);
        if (block != nullptr) take(from, *block, k);
      }
      return;
    }
    from.read_blocks(field_, first.block, static_cast<std::int64_t>(run.count), room_of(run));
    for (std::size_t k = run.first; k < end; ++k)
      good_[k] = from.is_good(field_, items_[k].block, room_of({k, 1})) ? 1 : 0;
  }

  /// Orders walk from neighbor to neighbor (order.hpp): storage reads on while what is in memory is used up. Of large
  /// samples none is known to be next.
  void load_with_next(const Run& run) {
    const Item& item = items_[run.first];
    const auto from = shards_.reader(item.shard);
    load(*from, run);
    const ShardHeader& header = from->header();
    const std::int64_t blocks = item.is_alone ? static_cast<std::int64_t>(run.count) : 1;
    const bool is_large = item.is_alone && header.file_bytes / header.num_samples >= kLargeSampleBytes;
    if (!is_large) from->will_read(field_, item.block + blocks, blocks);
  }

  /// Reads a run with retries, and reports the items that are not good then.
  void load_alone(const Run& run) {
    const std::size_t run_shard = items_[run.first].shard;
    (void)attempt(run.first, run.count, run_shard, [&](const ShardReader& from) {
      load(from, run);
      for (std::size_t k = run.first; k < run.first + run.count; ++k) {
        if (good_[k] != 0) continue;
        if (shards_.has_copy(run_shard))
          throw DataError(from.damage(items_[k].sample));  // the shard itself may be whole
        report(k, from.damage(items_[k].sample));
      }
    });
  }

  /// Sample k is done; its bytes lie at their offset if it is good.
  void finish(std::size_t k, bool good) {
    const std::int64_t bytes = length(field_, k);
    std::byte* to = column_->bytes.data() + begin_;
    if (good && offsets_[k] != begin_) std::memmove(to, column_->bytes.data() + offsets_[k], bytes);
    if (!good && is_fixed(field_) && bytes > 0) std::memset(to, 0, bytes);
    if (good || is_fixed(field_)) begin_ += bytes;
    if (!is_fixed(field_)) column_->offsets.push_back(begin_);
  }

  /// use(reader of the shard). False if the file server stays in trouble: samples k to k + count − 1 are then reported.
  template <class Use>
  bool attempt(std::size_t k, std::size_t count, std::size_t shard, const Use& use) {
    auto lost = lost_.find(shard);
    if (lost == lost_.end() && !lost_.empty() && pauses_ == kRetryPauses.size()) {
      // The server has had its time: another attempt may take a minute until it times out.
      if (const auto failed = failed_.find(shard); failed != failed_.end()) lost = lost_.insert(*failed).first;
    }
    if (lost == lost_.end()) {
      try {
        with_retries([&] { use_any(shard, use); }, [&] { close(shard); }, pauses_);
        failed_.erase(shard);
        return true;
      } catch (const FileError& error) {
        if (!may_pass(error) || damaged_ == nullptr) throw;
        lost = lost_.emplace(shard, error.what()).first;
      }
    }
    for (std::size_t i = 0; i < count; ++i) report(k + i, lost->second);
    return false;
  }

  /// Reads one sample after another: most lie in the same shard as the one before.
  const ShardReader& reader(std::size_t shard) {
    if (reader_ == nullptr || reader_shard_ != shard) {
      reader_ = shards_.reader(shard);
      reader_shard_ = shard;
    }
    return *reader_;
  }

  void close(std::size_t shard) {
    reader_.reset();
    shards_.close(shard);
  }

  /// use(reader of the shard); where a copy cannot be used, with the shard itself.
  template <class Use>
  void use_any(std::size_t shard, const Use& use) {
    const bool has_copy = shards_.has_copy(shard);
    try {
      use(reader(shard));
    } catch (const DataError& error) {
      if (!has_copy) throw;
      shards_.drop_copy(shard, error.what());
      reader_.reset();
      use(reader(shard));
    }
  }

  void report(std::size_t k, const std::string& what) {
    if (damaged_ == nullptr) throw DataError(what);
    if (reported_.insert(k).second) damaged_->push_back({static_cast<std::int64_t>(k), what});
  }

  OpenShards& shards_;
  const SampleSpec& spec_;
  RawSamples& out_;
  std::vector<SampleError>* damaged_;
  std::vector<Item> items_;
  std::vector<std::vector<std::int64_t>> lengths_;  // [fields][samples] of varying fields
  std::set<std::size_t> reported_;
  std::map<std::size_t, std::string> failed_;  // shards that failed among many, and why
  std::map<std::size_t, std::string> lost_;    // shards that the server does not give, and what it says
  std::size_t pauses_ = 0;                     // taken, of kRetryPauses
  std::shared_ptr<const ShardReader> reader_;
  std::size_t reader_shard_ = 0;
  // About the field that is being read:
  std::size_t field_ = 0;
  RawColumn* column_ = nullptr;
  std::vector<std::int64_t> offsets_;  // [samples + 1] if all are good
  std::vector<char> good_;             // [samples] read, with the right checksum
  std::int64_t begin_ = 0;             // of the next sample in its column
};

}  // namespace

void read_samples(OpenShards& shards, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged) {
  Reading(shards, out, damaged).read(indices);
}

}  // namespace mn::data
