#include "data/inspect.hpp"

#include <iostream>
#include <mutex>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/classes.hpp>
#include <mn/data/shard_reader.hpp>

#include "data/conversion.hpp"
#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

/// Finds the samples in [first, last) with a value that is not a class, and adds them to `result`.
void judge_classes(const ShardReader& reader, std::size_t field, const FieldSpec& spec,
                   std::span<const std::byte> values, std::int64_t first, std::int64_t last, VerifyReport& result) {
  if (range_of(spec.dtype, values).is_in(spec.num_classes)) return;
  for (std::int64_t i = first, at = 0; i < last; ++i) {
    const std::int64_t length = reader.length(field, i);
    const ClassRange range = range_of(spec.dtype, values.subspan(at, length));
    at += length;
    if (range.is_in(spec.num_classes)) continue;
    result.damage.push_back({reader.path(), i, "its " + spec.name + " " + range.outlier() + " is not a class"});
  }
}

void verify_blocks(const ShardReader& reader, std::size_t field, const FieldSpec& spec, VerifyReport& result) {
  constexpr std::int64_t kAhead = 32;  // number of blocks that the system is asked to read ahead
  for (std::int64_t block = 0; block < reader.num_blocks(); ++block) {
    if (block % kAhead == 0) reader.will_read(field, block, 2 * kAhead);
    const std::int64_t first = reader.first_sample(block);
    const std::int64_t last = reader.first_sample(block + 1);
    try {
      const auto values = reader.load_block(field, block);
      if (spec.num_classes > 0) judge_classes(reader, field, spec, *values, first, last, result);
    } catch (const FileError&) {
      throw;
    } catch (const DataError&) {
      std::string what = reader.num_fields() > 2 ? "the checksum of " + spec.name : "the checksum";
      std::string source;
      if (first + 1 < last) {
        what += " of samples " + std::to_string(first) + " to " + std::to_string(last - 1);
      } else {
        if (reader.num_fields() <= 2) what = "its checksum";
        source = reader.source_of(first);
      }
      if (!source.empty()) source = ": the sample is from " + source;
      result.damage.push_back({reader.path(), first, what + " differs" + source});
    }
  }
}

void verify_small(const ShardReader& reader, std::size_t field, const FieldSpec& spec, VerifyReport& result) {
  if (spec.num_classes == 0) return;
  std::vector<std::byte> values(reader.size() * spec.sample_bytes());
  for (std::int64_t i = 0; i < reader.size(); ++i) {
    reader.copy_small(field, i, values.data() + i * spec.sample_bytes());
  }
  judge_classes(reader, field, spec, values, 0, reader.size(), result);
}

VerifyReport verify_shard(const ShardTable& table, std::size_t shard) {
  VerifyReport result;
  try {
    const ShardReader reader(open_shard(table, shard), std::make_shared<IoCounters>());
    result.samples = reader.size();
    result.bytes = static_cast<std::int64_t>(reader.header().file_bytes);
    if (reader.size() != table.shards()[shard].num_samples || reader.header().block_samples != table.block_samples() ||
        reader.header().spec != without_classes(table.spec())) {
      throw DataError(reader.path() + " is another kind of shard, or has another length, than the manifest says");
    }
    for (std::size_t f = 0; f < reader.num_fields(); ++f) {
      const auto verify = reader.is_small(f) ? verify_small : verify_blocks;
      verify(reader, f, table.spec()[f], result);
    }
    if (!reader.header().has_images) return result;
    (void)reader.read_keys();
    (void)reader.read_part(reader.header().images.hwc, "/data/hwc");
  } catch (const DataError& error) {
    result.damage.push_back({table.path(shard).string(), -1, error.what()});
  }
  return result;
}

}  // namespace

VerifyReport verify_dataset(const ShardTable& table, int threads,
                            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::size_t shards = table.shards().size();
  std::vector<VerifyReport> results(shards);
  std::int64_t done = 0;
  std::mutex mutex;
  run_tasks(shards, threads, [&](std::size_t i) {
    results[i] = verify_shard(table, i);
    const std::lock_guard lock(mutex);
    ++done;
    if (progress) progress(done, static_cast<std::int64_t>(shards));
  });

  VerifyReport report;
  report.shards = static_cast<std::int64_t>(shards);
  for (VerifyReport& result : results) {
    report.samples += result.samples;
    report.bytes += result.bytes;
    report.damage.insert(report.damage.end(), result.damage.begin(), result.damage.end());
  }
  return report;
}

std::size_t field_position(const SampleSpec& spec, const std::string& name, const std::string& option) {
  try {
    return spec.position(name);
  } catch (const ArgumentError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

void write_sample(std::span<const std::byte> sample, const std::string& out) {
  const std::string_view bytes(reinterpret_cast<const char*>(sample.data()), sample.size());
  if (!out.empty()) return write_file(out, bytes);
  std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!std::cout) throw DataError("cannot write the sample to standard output");
}

ExtractedSample extract_sample(const StoredTable& table, std::int64_t index, std::size_t field) {
  if (index < 0 || index >= table.num_samples()) {
    throw UsageError("there is no sample " + std::to_string(index) + ": the dataset has " +
                     std::to_string(table.num_samples()) + ", counted from 0");
  }
  const auto [number, sample] = table.locate(index);
  table.check_unchanged(number);
  const auto file = table.open(number, File(table.path(number), File::Mode::kRead), std::make_shared<IoCounters>());
  ExtractedSample result{.bytes = file->read_sample(field, sample), .key = file->source_of(sample)};
  if (is_labeled(table.spec())) result.label = label_of(*file, sample);
  return result;
}

}  // namespace mn::data
