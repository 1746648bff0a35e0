#include "data/verify.hpp"

#include <algorithm>
#include <mutex>

#include <mn/core/error.hpp>
#include <mn/data/classes.hpp>

#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

using Texts = std::vector<std::string>;

/// Reads a block. If its values are to be classes, checks them.
void verify_block(const StoredTable& table, std::size_t number, const StoredFile& file, std::size_t field,
                  std::int64_t block, Texts& damage) {
  const auto values = file.load_block(field, block);
  const FieldSpec& spec = table.spec()[field];
  if (spec.num_classes == 0 || range_of(spec.dtype, *values).is_in(spec.num_classes)) return;
  const std::int64_t first = file.first_sample(field, block);
  for (std::int64_t i = first; i < file.first_sample(field, block + 1); ++i) {
    const auto own = std::span(*values).subspan(file.offset_in_block(field, i), file.length(field, i));
    const ClassRange range = range_of(spec.dtype, own);
    if (range.is_in(spec.num_classes)) continue;
    damage.push_back(table.path(number).string() + ": sample " + std::to_string(i) + ": its " + spec.name + " " +
                     range.outlier() + " is not a class");
  }
}

void verify_blocks(const StoredTable& table, std::size_t number, const StoredFile& file, std::size_t field,
                   std::int64_t begin, std::int64_t end, Texts& damage) {
  constexpr std::int64_t kAhead = 32;  // blocks that the system is asked to read ahead
  for (std::int64_t block = begin; block < end; ++block) {
    if ((block - begin) % kAhead == 0) file.will_read(field, block, std::min(2 * kAhead, end - block));
    try {
      verify_block(table, number, file, field, block, damage);
    } catch (const FileError&) {
      throw;
    } catch (const DataError& error) {
      damage.emplace_back(error.what());
    }
  }
}

/// Verifies part number `part` of `parts` parts of each field's blocks.
Texts verify_part(const StoredTable& table, std::size_t number, std::int64_t part, std::int64_t parts) {
  Texts damage;
  try {
    const auto file = table.open_alone(number);
    for (std::size_t f = 0; f < table.spec().fields.size(); ++f) {
      const std::int64_t blocks = file->num_blocks(f);
      verify_blocks(table, number, *file, f, blocks * part / parts, blocks * (part + 1) / parts, damage);
    }
    if (part == 0) file->check_rest();
  } catch (const DataError& error) {
    damage.emplace_back(error.what());
  }
  return damage;
}

}  // namespace

std::vector<std::string> verify_dataset(const StoredTable& table, int threads,
                                        const std::function<void(std::int64_t, std::int64_t)>& progress) {
  // If there are few files, several threads verify a file together.
  constexpr std::size_t kTasksPerThread = 4;
  const std::size_t files = std::max<std::size_t>(table.num_files(), 1);
  const std::size_t parts = (kTasksPerThread * static_cast<std::size_t>(threads) + files - 1) / files;
  std::vector<Texts> found(table.num_files() * parts);
  std::int64_t done = 0;
  std::mutex mutex;
  run_tasks(found.size(), threads, [&](std::size_t i) {
    found[i] = verify_part(table, i / parts, static_cast<std::int64_t>(i % parts), static_cast<std::int64_t>(parts));
    const std::lock_guard lock(mutex);
    ++done;
    if (progress) progress(done, std::ssize(found));
  });

  Texts damage;
  for (const Texts& texts : found) damage.insert(damage.end(), texts.begin(), texts.end());
  // If a file can't be opened, all its parts give the same text.
  damage.erase(std::unique(damage.begin(), damage.end()), damage.end());
  return damage;
}

}  // namespace mn::data
