// Reads samples from shards.
//
// A read first finds each sample's shard, its small fields and the lengths of its varying ones, then reads one field
// after another: from blocks of several samples by way of the cached block, from blocks of one straight into the
// result, neighbors by one read.
//
// (1) A damaged sample leaves the others of the read whole: varying fields close up, fixed ones keep their room.
// (2) An error of a file server that may pass is retried, each time with the file opened anew, as a stale handle stays
//     stale. Where it stays, the samples concerned count as damaged. All other errors are thrown.
// (3) Each damaged sample is reported once, whatever number of its fields is damaged.
//
// Cost: a binary search and a look into the caches for each sample; a pread for each run of neighbors or block.
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reading.hpp>

namespace mn::data {
namespace {

std::shared_ptr<const ShardReader> open_reader(const OpenShards& shards, std::size_t shard) {
  auto reader = std::make_shared<const ShardReader>(open_shard(shards.table, shard), shards.counters);
  if (reader->size() != shards.table.shards()[shard].num_samples || reader->header().form != shards.table.form() ||
      reader->header().spec != shards.stored_spec) {
    throw DataError(reader->path() +
                    " is another kind of shard than the manifest says: make the shards again with mnshard");
  }
  return reader;
}

class Reading {
 public:
  Reading(OpenShards& shards, RawSamples& out, std::vector<SampleError>* damaged)
      : shards_(shards), spec_(shards.table.spec()), out_(out), damaged_(damaged) {}

  void read(std::span<const std::int64_t> indices) {
    out_.reset(spec_, std::ssize(indices));
    items_.reserve(indices.size());
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
    std::int64_t sample;  // within the shard
    bool readable;
  };

  [[nodiscard]] bool is_fixed(std::size_t field) const { return spec_.fields[field].kind == FieldKind::kFixed; }
  [[nodiscard]] bool has_blocks() const { return shards_.table.form().block_samples > 1; }
  [[nodiscard]] std::int64_t length(std::size_t field, std::size_t k) const {
    return lengths_[field].empty() ? out_.columns[field].sample_bytes : lengths_[field][k];
  }

  /// Adds an item, with its small fields and lengths.
  void locate(std::int64_t index) {
    const auto [shard, sample] = shards_.table.locate(index);
    const std::size_t k = items_.size();
    const bool readable = attempt(k, 1, shard, [&, sample = sample](const ShardReader& from) {
      for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
        if (from.is_small(f)) {
          from.copy_small(f, sample, room(f, k));
        } else if (!is_fixed(f)) {
          lengths_[f][k] = from.length(f, sample);
        }
      }
    });
    items_.push_back({shard, sample, readable});
    if (readable) return;
    for (std::size_t f = 0; f < spec_.fields.size(); ++f) {
      if (is_small(spec_, f, shards_.table.form())) std::memset(room(f, k), 0, out_.columns[f].sample_bytes);
    }
  }

  /// Of sample k of a fixed field.
  [[nodiscard]] std::byte* room(std::size_t field, std::size_t k) const {
    RawColumn& column = out_.columns[field];
    return column.bytes.data() + static_cast<std::int64_t>(k) * column.sample_bytes;
  }

  void read_field(std::size_t field) {
    field_ = field;
    column_ = &out_.columns[field];
    begin_ = 0;
    if (!is_fixed(field)) {  // at once: a vector that grows copies itself again and again
      column_->bytes.resize(std::accumulate(lengths_[field].begin(), lengths_[field].end(), std::int64_t{0}));
    }
    for (std::size_t k = 0; k < items_.size();) {
      const std::size_t count = neighbors(k);
      if (!items_[k].readable) {
        finish(k, begin_, false);
      } else if (has_blocks()) {
        take_from_block(k);
      } else {
        read_run(k, count);
      }
      k += count;
    }
    column_->bytes.resize(begin_);
  }

  /// How many samples from k on are neighbors that one read takes.
  [[nodiscard]] std::size_t neighbors(std::size_t k) const {
    if (!items_[k].readable || has_blocks()) return 1;
    std::size_t count = 1;
    for (; k + count < items_.size(); ++count) {
      const Item& next = items_[k + count];
      const bool neighbor = next.readable && next.shard == items_[k].shard &&
                            next.sample == items_[k].sample + static_cast<std::int64_t>(count);
      if (!neighbor) break;
    }
    return count;
  }

  void take_from_block(std::size_t k) {
    const Item& item = items_[k];
    const std::int64_t bytes = length(field_, k);
    bool good = false;
    const bool done = attempt(k, 1, item.shard, [&](const ShardReader& from) {
      const auto block = shards_.cache.block(from, item.shard, field_, item.sample / from.block_samples());
      good = block != nullptr;
      if (!good) {
        report(k, from.damage(item.sample));
      } else if (bytes > 0) {
        std::memcpy(column_->bytes.data() + begin_, block->data() + from.offset_in_block(field_, item.sample), bytes);
      }
    });
    finish(k, begin_, done && good);
  }

  void read_run(std::size_t k, std::size_t count) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += length(field_, k + i);
    const auto room = std::span(column_->bytes).subspan(begin_, bytes);
    const std::int64_t first = items_[k].sample;
    std::vector<bool> good(count, false);
    (void)attempt(k, count, items_[k].shard, [&](const ShardReader& from) {
      from.read_blocks(field_, first, static_cast<std::int64_t>(count), room);
      for (std::size_t i = 0, at = 0; i < count; at += length(field_, k + i), ++i) {
        const std::int64_t block = first + static_cast<std::int64_t>(i);
        good[i] = from.is_good(field_, block, room.subspan(at, length(field_, k + i)));
        if (!good[i]) report(k + i, from.damage(block));
      }
    });
    std::int64_t at = begin_;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t own = length(field_, k + i);
      finish(k + i, at, good[i]);
      at += own;
    }
  }

  /// Sample k is done; its bytes lie at `at` if it is good.
  void finish(std::size_t k, std::int64_t at, bool good) {
    const std::int64_t bytes = length(field_, k);
    std::byte* to = column_->bytes.data() + begin_;
    if (good && at != begin_) std::memmove(to, column_->bytes.data() + at, bytes);
    if (!good && is_fixed(field_) && bytes > 0) std::memset(to, 0, bytes);
    if (good || is_fixed(field_)) begin_ += bytes;
    if (!is_fixed(field_)) column_->offsets.push_back(begin_);
  }

  /// use(reader of the shard). False if the file server stays in trouble: samples k to k + count − 1 are then reported.
  template <class Use>
  bool attempt(std::size_t k, std::size_t count, std::size_t shard, const Use& use) {
    auto lost = lost_.find(shard);
    if (lost == lost_.end()) {
      try {
        with_retries([&] { use(reader(shard)); }, [&] { close(shard); });
        return true;
      } catch (const FileError& error) {
        if (!may_pass(error) || damaged_ == nullptr) throw;
        lost = lost_.emplace(shard, error.what()).first;
      }
    }
    for (std::size_t i = 0; i < count; ++i) report(k + i, lost->second);
    return false;
  }

  /// Of one sample after another: most lie in the same shard as the one before.
  const ShardReader& reader(std::size_t shard) {
    if (reader_ == nullptr || reader_shard_ != shard) {
      reader_ = shards_.cache.reader(shard, [&] { return open_reader(shards_, shard); });
      reader_shard_ = shard;
    }
    return *reader_;
  }

  void close(std::size_t shard) {
    reader_.reset();
    shards_.cache.close(shard);
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
  std::map<std::size_t, std::string> lost_;  // shards that the server does not give, and what it says
  std::shared_ptr<const ShardReader> reader_;
  std::size_t reader_shard_ = 0;
  // Of the field that is being read:
  std::size_t field_ = 0;
  RawColumn* column_ = nullptr;
  std::int64_t begin_ = 0;  // of the next sample in its column
};

}  // namespace

void read_samples(OpenShards& shards, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged) {
  Reading(shards, out, damaged).read(indices);
}

}  // namespace mn::data
