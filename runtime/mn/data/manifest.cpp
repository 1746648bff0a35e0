// The table of a dataset's shards in memory, and as a message between ranks (a CBOR document).
//
// (1) hash() covers everything except the folder. It is the dataset's fingerprint in checkpoints, so the keys and the
//     encoding of the hashed document must not change.
// (2) In a parsed table all columns have the same length, counts can't overflow, and file names have no folder.
#include <mn/data/manifest.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/read_pool.hpp>
#include <mn/data/retry.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;

json content(const ShardTable& table) {
  Columns columns = columns_of(table.shards());
  json document = to_json(table.spec());
  document["split"] = table.split();
  document["files"] = columns.files;
  document["num_samples"] = columns.num_samples;
  document["bytes"] = columns.bytes;
  document["uuids"] = json::binary(std::move(columns.uuids));
  document["header_crcs"] = columns.header_crcs;
  document[kBlockSamples] = table.block_samples();
  return document;
}

}  // namespace

ShardTable::ShardTable(std::string folder, std::string split, SampleSpec samples, std::vector<ShardInfo> shards,
                       std::optional<std::int64_t> block_samples)
    : StoredTable(std::move(folder), std::move(split), std::move(samples)),
      shards_(std::move(shards)),
      block_samples_(block_samples.value_or(default_block_samples(spec()))) {
  for (const ShardInfo& shard : shards_) add_file(shard.num_samples);
}

StorageLayout ShardTable::layout() const {
  // An open shard keeps in memory: small fields, offsets of fields of varying length, and checksums of blocks.
  std::int64_t sample = 0;
  std::int64_t block = 0;
  for (std::size_t f = 0; f < spec().fields.size(); ++f) {
    if (is_small(f)) sample += spec().fields[f].sample_bytes();
    if (!is_small(f)) block += 4;
    if (spec().fields[f].kind != FieldKind::kFixed) sample += 8;
  }
  return {.bytes = total_bytes(),
          .files = static_cast<std::int64_t>(shards_.size()),
          .block_samples = block_samples_,
          .index_bytes = num_samples() * sample + num_samples() / block_samples_ * block};
}

std::filesystem::path ShardTable::path(std::size_t shard) const {
  return std::filesystem::path(folder()) / shards_[shard].file;
}

std::shared_ptr<const StoredFile> ShardTable::open(std::size_t shard, File bytes,
                                                   std::shared_ptr<IoCounters> counters) const {
  auto reader = std::make_shared<const ShardReader>(open_shard(std::move(bytes), shards_[shard]), std::move(counters));
  if (reader->size() != shards_[shard].num_samples || reader->header().block_samples != block_samples_ ||
      reader->header().spec != without_classes(spec())) {
    throw DataError(reader->path() +
                    " is another kind of shard than the manifest says: make the shards again with mnshard");
  }
  return reader;
}

void ShardTable::check_all() const {
  constexpr std::size_t kShardsPerThread = 16;
  constexpr std::size_t kMaxThreads = 64;  // more than the cores, because a thread mostly waits for the file server
  ReadPool pool(static_cast<int>(std::min(kMaxThreads, shards_.size() / kShardsPerThread)));
  std::atomic<bool> has_failed = false;
  std::vector<std::exception_ptr> errors(shards_.size());
  pool.run(shards_.size(), [&](std::size_t shard) {
    if (has_failed) return;
    try {
      with_retries([&] { (void)open_shard(*this, shard); }, [] {});
    } catch (...) {
      errors[shard] = std::current_exception();
      has_failed = true;
    }
  });
  const auto first = std::ranges::find_if(errors, [](const auto& error) { return error != nullptr; });
  if (first != errors.end()) std::rethrow_exception(*first);
}

std::uint64_t ShardTable::hash() const {
  const auto bytes = json::to_cbor(content(*this));
  return hash64(std::as_bytes(std::span(bytes)));
}

std::string ShardTable::serialize() const {
  json document = content(*this);
  document["folder"] = folder();
  std::string bytes;
  json::to_cbor(document, bytes);
  return bytes;
}

ShardTable ShardTable::parse(const std::string& bytes) {
  const json document = parse_cbor(bytes, kTableName);
  return read_json(kTableName, [&]() -> ShardTable {
    SampleSpec spec = spec_of_table(document);
    Columns columns;
    columns.files = document.at("files").get<std::vector<std::string>>();
    columns.num_samples = whole_numbers<std::int64_t>(document.at("num_samples"));
    columns.bytes = whole_numbers<std::int64_t>(document.at("bytes"));
    columns.header_crcs = whole_numbers<std::int64_t>(document.at("header_crcs"));
    columns.uuids = document.at("uuids").get_binary();
    return {document.at("folder"), document.at("split"), std::move(spec), shards_of(columns),
            checked_block_samples(whole_number<std::int64_t>(document.at(kBlockSamples)))};
  });
}

OpenShard open_shard(const ShardTable& table, std::size_t shard) {
  return open_shard(File(table.path(shard), File::Mode::kRead), table.shards()[shard]);
}

Columns columns_of(const std::vector<ShardInfo>& shards) {
  Columns columns;
  for (const ShardInfo& shard : shards) {
    columns.files.push_back(shard.file);
    columns.num_samples.push_back(shard.num_samples);
    columns.bytes.push_back(shard.bytes);
    for (const std::byte b : shard.uuid) columns.uuids.push_back(std::to_integer<std::uint8_t>(b));
    columns.header_crcs.push_back(shard.header_crc);
  }
  return columns;
}

std::vector<ShardInfo> shards_of(const Columns& columns) {
  const std::size_t n = columns.files.size();
  if (columns.num_samples.size() != n || columns.bytes.size() != n || columns.uuids.size() != n * sizeof(Uuid) ||
      columns.header_crcs.size() != n) {
    throw DataError("the columns of a shard table differ in length");
  }
  std::vector<ShardInfo> shards(n);
  for (std::size_t i = 0; i < n; ++i) {
    shards[i].file = columns.files[i];
    shards[i].num_samples = columns.num_samples[i];
    shards[i].bytes = columns.bytes[i];
    std::memcpy(shards[i].uuid.data(), &columns.uuids[i * sizeof(Uuid)], sizeof(Uuid));
    shards[i].header_crc = static_cast<std::uint32_t>(columns.header_crcs[i]);
    if (shards[i].num_samples < 0 || shards[i].num_samples > kMaxSamples || shards[i].bytes < 0) {
      throw DataError("a shard table has impossible numbers");
    }
    if (shards[i].file.find('/') != std::string::npos) throw DataError("a shard table names a file outside its folder");
  }
  return shards;
}

SampleSpec spec_of_table(const nlohmann::json& document) {
  SampleSpec spec = sample_spec_from_json(document, kTableName);
  const std::string problem = storage_problem(spec);
  if (problem.empty()) return spec;
  throw DataError(std::string(kTableName) + " has samples that no shard can hold: " + problem);
}

std::int64_t checked_block_samples(std::int64_t block_samples) {
  if (block_samples >= 1 && block_samples <= kMaxSamples) return block_samples;
  throw DataError(std::string(kTableName) + " has blocks of " + std::to_string(block_samples) + " samples");
}

}  // namespace mn::data
