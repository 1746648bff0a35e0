#include <cstring>
#include <set>

#include <mn/core/error.hpp>
#include <mn/data/indexed_dataset.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_dataset.hpp>

namespace mn::data {
namespace {

// Contiguous samples of this size are read by themselves: a block would hold but one or two.
constexpr std::int64_t kAloneBytes = 32 << 10;

}  // namespace

std::int64_t block_room(const IndexedTable& table, const ShardDatasetOptions& options, int ranks) {
  constexpr std::int64_t kForEach = std::int64_t{64} << 20;
  const std::int64_t shared = ranks == 1 ? options.cache_bytes : kForEach + options.cache_bytes / ranks;
  return std::max(std::min(options.cache_bytes, shared), 2 * table.layout().live_bytes);
}

IndexedDataset::IndexedDataset(IndexedTable table, const ShardDatasetOptions& options)
    : table_(std::move(table)),
      options_(options),
      block_room_(data::block_room(table_, options, 1)),
      readers_(reserve_handles(options.open_shards)),
      blocks_(block_room_) {}

std::shared_ptr<const IndexedReader> IndexedDataset::reader(std::size_t file) const {
  return readers_.get(file, [&]() -> LruCache<IndexedReader>::Made {
    return {std::make_shared<const IndexedReader>(table_, file, counters_), 1};
  });
}

std::shared_ptr<const ByteBuffer> IndexedDataset::block(const IndexedReader& from, std::size_t file, std::size_t field,
                                                        std::int64_t number) const {
  // A spec has at most 64 fields; 2^18 files of 2^40 samples.
  const std::uint64_t key = static_cast<std::uint64_t>(file) << 46 | static_cast<std::uint64_t>(field) << 40 |
                            static_cast<std::uint64_t>(number);
  return blocks_.get(key, [&]() -> LruCache<ByteBuffer>::Made {
    auto made = from.load_block(field, number);
    const std::int64_t bytes = std::ssize(*made);
    const bool stays = table_.num_samples() * table_.spec().sample_bytes() <= block_room_;
    return {std::move(made), bytes, stays ? LruCache<ByteBuffer>::kUnlimited : from.samples_in(field, number)};
  });
}

void IndexedDataset::read_value(std::int64_t index, std::size_t field, std::span<std::byte> out) const {
  const auto [file, sample] = table_.locate(index);
  const auto from = reader(file);
  if (from->is_contiguous(field) && std::ssize(out) >= kAloneBytes) {
    from->read_samples(field, sample, 1, out);
    return;
  }
  const std::int64_t in_block = from->block_samples(field);
  const auto values = block(*from, file, field, sample / in_block);
  std::memcpy(out.data(), values->data() + sample % in_block * std::ssize(out), out.size());
}

void IndexedDataset::do_read(std::span<const std::int64_t> indices, RawSamples& out,
                             std::vector<SampleError>* damaged) const {
  out.reset(table_.spec(), std::ssize(indices));
  std::set<std::int64_t> reported;
  for (std::size_t f = 0; f < out.columns.size(); ++f) {
    const std::int64_t bytes = out.columns[f].sample_bytes;
    for (std::int64_t k = 0; bytes > 0 && k < std::ssize(indices); ++k) {
      const auto room = std::span(out.columns[f].bytes).subspan(k * bytes, bytes);
      try {
        with_retries([&] { read_value(indices[k], f, room); },
                     [&] { readers_.erase(table_.locate(indices[k]).first); });
      } catch (const DataError& error) {
        const auto* file_error = dynamic_cast<const FileError*>(&error);
        if (damaged == nullptr || (file_error != nullptr && !may_pass(*file_error))) throw;
        std::memset(room.data(), 0, room.size());
        if (reported.insert(k).second) damaged->push_back({k, error.what()});
      }
    }
  }
}

std::string IndexedDataset::do_where(std::int64_t index) const {
  const auto [file, sample] = table_.locate(index);
  return table_.path(file).string() + ": sample " + std::to_string(sample);
}

void IndexedDataset::do_share(int ranks) {
  if (table_.layout().bytes <= kFullShuffleBytes) return;
  block_room_ = data::block_room(table_, options_, ranks);
  blocks_.set_capacity(block_room_);
}

}  // namespace mn::data
