// Reads samples from shards.
//
// A read first finds each sample's shard, length and label, then reads the bytes: of fixed samples that share a block
// by way of the cached block, of all others straight into the result, neighbors by one read.
//
// (1) A damaged sample leaves the others of the read whole: encoded ones close up, fixed ones keep their room.
// (2) An error of a file server that may pass is retried, each time with the file opened anew, as a stale handle stays
//     stale. Where it stays, the samples concerned count as damaged. All other errors are thrown.
//
// Cost: a binary search and a look into the caches for each sample; a pread for each run of neighbors or block.
#include <cstring>
#include <map>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reading.hpp>

namespace mn::data {
namespace {

std::shared_ptr<const ShardReader> open_reader(const OpenShards& shards, std::size_t shard) {
  auto reader = std::make_shared<const ShardReader>(open_shard(shards.table, shard), shards.counters);
  const SampleSpec& spec = shards.table.spec();
  if (reader->size() != shards.table.shards()[shard].num_samples || reader->header().kind != spec.kind ||
      reader->header().sample_bytes() != spec.sample_bytes() ||
      reader->block_samples() != shards.table.block_samples()) {
    throw DataError(reader->path() +
                    " is another kind of shard than the manifest says: make the shards again with mnshard");
  }
  return reader;
}

class Reading {
 public:
  Reading(OpenShards& shards, RawSamples& out, std::vector<SampleError>* damaged)
      : shards_(shards), out_(out), damaged_(damaged) {}

  void read(std::span<const std::int64_t> indices) {
    out_.labels.clear();
    out_.offsets.assign(1, 0);
    locate(indices);
    std::int64_t total = 0;
    for (const Item& item : items_) total += item.length;
    out_.bytes.resize(total);  // at once: a vector that grows copies itself again and again
    for (std::size_t k = 0; k < items_.size();) {
      const std::size_t count = neighbors(k);
      if (!items_[k].readable) {
        finish(k, begin_, false);
      } else if (shards_.table.block_samples() > 1) {
        take_from_block(k);
      } else {
        read_run(k, count);
      }
      k += count;
    }
    out_.bytes.resize(begin_);
  }

 private:
  struct Item {
    std::size_t shard;
    std::int64_t sample;  // within the shard
    std::int64_t length;
    bool readable;
  };

  [[nodiscard]] bool fixed() const { return shards_.table.spec().kind == SampleKind::kFixed; }

  void locate(std::span<const std::int64_t> indices) {
    for (const std::int64_t index : indices) {
      const auto [shard, sample] = shards_.table.locate(index);
      Item item{shard, sample, fixed() ? shards_.table.spec().sample_bytes() : 0, false};
      std::int64_t label = 0;
      item.readable = attempt(items_.size(), 1, shard, [&, sample = sample](const ShardReader& from) {
        item.length = from.length(sample);
        label = from.label(sample);
      });
      items_.push_back(item);
      out_.labels.push_back(label);
    }
  }

  /// How many samples from k on are neighbors that one read takes.
  [[nodiscard]] std::size_t neighbors(std::size_t k) const {
    if (!items_[k].readable || shards_.table.block_samples() > 1) return 1;
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
    bool good = false;
    const bool done = attempt(k, 1, item.shard, [&](const ShardReader& from) {
      const std::int64_t samples = from.block_samples();
      const auto block = shards_.cache.block(from, item.shard, item.sample / samples);
      good = block != nullptr;
      if (!good) {
        report(k, from.damage(item.sample));
      } else if (item.length > 0) {
        std::memcpy(out_.bytes.data() + begin_, block->data() + item.sample % samples * item.length, item.length);
      }
    });
    finish(k, begin_, done && good);
  }

  void read_run(std::size_t k, std::size_t count) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) bytes += items_[k + i].length;
    const auto room = std::span(out_.bytes).subspan(begin_, bytes);
    const std::int64_t first = items_[k].sample;
    std::vector<bool> good(count, false);
    (void)attempt(k, count, items_[k].shard, [&](const ShardReader& from) {
      from.read_blocks(first, static_cast<std::int64_t>(count), room);
      for (std::size_t i = 0, at = 0; i < count; at += items_[k + i].length, ++i) {
        good[i] = from.is_good(first + static_cast<std::int64_t>(i), room.subspan(at, items_[k + i].length));
        if (!good[i]) report(k + i, from.damage(first + static_cast<std::int64_t>(i)));
      }
    });
    std::int64_t at = begin_;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t length = items_[k + i].length;
      finish(k + i, at, good[i]);
      at += length;
    }
  }

  /// Sample k is done; its bytes lie at `at` if it is good.
  void finish(std::size_t k, std::int64_t at, bool good) {
    const std::int64_t length = items_[k].length;
    if (good && at != begin_) std::memmove(out_.bytes.data() + begin_, out_.bytes.data() + at, length);
    if (!good && fixed() && length > 0) std::memset(out_.bytes.data() + begin_, 0, length);
    if (good || fixed()) begin_ += length;
    out_.offsets.push_back(begin_);
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
    damaged_->push_back({static_cast<std::int64_t>(k), what});
  }

  OpenShards& shards_;
  RawSamples& out_;
  std::vector<SampleError>* damaged_;
  std::vector<Item> items_;
  std::int64_t begin_ = 0;                   // of the next sample in the result
  std::map<std::size_t, std::string> lost_;  // shards that the server does not give, and what it says
  std::shared_ptr<const ShardReader> reader_;
  std::size_t reader_shard_ = 0;
};

}  // namespace

void read_samples(OpenShards& shards, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged) {
  Reading(shards, out, damaged).read(indices);
}

}  // namespace mn::data
