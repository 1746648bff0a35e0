// Reads samples from the files of a dataset.
//
// A read opens the files of its samples, copies the fields that are in memory, and plans which blocks of the other
// fields to read (ReadPlan). Then it reads field by field. Blocks of several samples go into the cache; blocks of one
// sample go straight into the result. Many files are opened, and many blocks are read, at the same time. Failed reads
// are repeated one by one, with retries, to report the errors.
//
// (1) A damaged sample does not affect the other samples of the read. In a field of varying length the damaged sample
//     gets no bytes; in a fixed field it gets zeros.
// (2) If the file server does not deliver a file, the file's samples count as damaged. All other errors are thrown.
// (3) Each damaged sample is reported once, for any number of damaged fields.
// (4) If a sample is damaged in the node's copy of a file, it is read from the file on shared storage (ReadAttempts).
#include <mn/data/open_files.hpp>

#include <algorithm>
#include <cstring>
#include <set>

#include <mn/core/error.hpp>
#include <mn/data/read_attempts.hpp>
#include <mn/data/read_plan.hpp>

namespace mn::data {
namespace {

struct FieldRead {
  std::size_t field;
  RawColumn& column;
  std::vector<std::int64_t> offsets;  // [samples + 1] where each sample goes in the column, if no sample is damaged
  std::vector<char> good;             // [samples] 1 if the sample was read and has the right checksum

  [[nodiscard]] std::span<std::byte> room(const ReadRun& run) const {
    return std::span(column.bytes).subspan(offsets[run.first], offsets[run.first + run.count] - offsets[run.first]);
  }
  [[nodiscard]] bool is_good(const ReadRun& run) const {
    return std::all_of(&good[run.first], &good[run.first] + run.count, [](char each) { return each != 0; });
  }
  void take(std::size_t k, const ByteBuffer& block, const BlockExtent& at) {
    const auto to = room({k, 1});
    if (!to.empty()) std::memcpy(to.data(), block.data() + at.offset, to.size());
    good[k] = 1;
  }
};

/// A call of read_samples(). Several threads load the runs (ReadRun) of a field at once.
class Reading {
 public:
  Reading(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>* damaged,
          std::optional<std::size_t> only)
      : files_(files),
        table_(files.table()),
        out_(out),
        damaged_(damaged),
        only_(only),
        plan_(table_.spec().fields.size(), indices.size()),
        attempts_(files) {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const auto [file, sample] = table_.locate(indices[k]);
      plan_.locate(k, file, sample);
    }
  }

  void run() {
    out_.reset(table_.spec(), static_cast<std::int64_t>(plan_.size()));
    open_many();
    for (std::size_t k = 0; k < plan_.size(); ++k) locate_fields(k);
    for (std::size_t f = 0; f < out_.columns.size(); ++f) {
      if (!table_.is_small(f) && only_.value_or(f) == f) read_field(f);
    }
  }

 private:
  [[nodiscard]] bool is_fixed(std::size_t field) const { return table_.spec().fields[field].kind == FieldKind::kFixed; }

  void open_many() {
    std::vector<std::size_t> closed;
    for (const std::size_t file : plan_.files()) {
      if (!files_.is_open(file)) closed.push_back(file);
    }
    attempts_.try_all(
        closed.size(), [&](std::size_t i) { return closed[i]; }, [&](std::size_t i) { (void)files_.open(closed[i]); });
  }

  /// Copies the fields of sample k that are in memory, and plans the reads of the other fields.
  void locate_fields(std::size_t k) {
    const auto small = [&](std::size_t f) {
      RawColumn& column = out_.columns[f];
      return std::span(column.bytes).subspan(k * column.sample_bytes, column.sample_bytes);
    };
    const bool is_open = attempt({k, 1}, [&](const StoredFile& from, bool) {
      for (std::size_t f = 0; f < out_.columns.size(); ++f) {
        if (from.is_small(f)) from.copy_small(f, plan_.sample(k), small(f).data());
      }
      plan_.locate_fields(k, from);
    });
    for (std::size_t f = 0; f < out_.columns.size() && !is_open; ++f) {
      if (table_.is_small(f)) std::ranges::fill(small(f), std::byte{0});
    }
  }

  void read_field(std::size_t field) {
    FieldRead read{field, out_.columns[field],
                   plan_.offsets(field, is_fixed(field) ? out_.columns[field].sample_bytes : 0),
                   std::vector<char>(plan_.size())};
    // The whole size at once: a vector that grows step by step copies itself repeatedly.
    read.column.bytes.resize(read.offsets.back());
    for (std::size_t k = 0; k < plan_.size(); ++k) {
      if (!plan_.is_readable(k) || plan_.at(field, k).is_alone) continue;
      const auto block = files_.find_block(plan_.file(k), field, plan_.at(field, k).block);
      if (block != nullptr) read.take(k, *block, plan_.at(field, k));
    }
    const auto runs = plan_.runs(field, [&](std::size_t k) { return plan_.is_readable(k) && read.good[k] == 0; });
    attempts_.try_all(
        runs.size(), [&](std::size_t i) { return plan_.file(runs[i].first); },
        [&](std::size_t i) { load_with_next(read, runs[i]); });
    for (const ReadRun& run : runs) {
      if (!read.is_good(run)) load_alone(read, run);
    }
    close_up(read);
  }

  /// Reads a run, and sets `good` for its undamaged samples. Throws DataError if a block of several samples is damaged.
  void load(const StoredFile& from, FieldRead& read, const ReadRun& run) const {
    const BlockExtent& first = plan_.at(read.field, run.first);
    const std::size_t end = run.first + run.count;
    if (first.is_alone) {
      from.read_blocks(read.field, first.block, static_cast<std::int64_t>(run.count), read.room(run));
      for (std::size_t k = run.first; k < end; ++k) {
        read.good[k] = from.is_good(read.field, plan_.at(read.field, k).block, read.room({k, 1})) ? 1 : 0;
      }
      return;
    }
    // One call of block() for each sample, because the cache counts the uses of a block.
    for (std::size_t k = run.first; k < end; ++k) {
      const auto block = files_.block(from, plan_.file(k), read.field, first.block);
      read.take(k, *block, plan_.at(read.field, k));
    }
  }

  /// Reads a run, and reads ahead the following block, because orders walk from neighbor to neighbor (order.hpp). Large
  /// samples are read in random order, without reading ahead. Thread-safe for different runs.
  void load_with_next(FieldRead& read, const ReadRun& run) const {
    const auto from = files_.open(plan_.file(run.first)).file;
    load(*from, read, run);
    const BlockExtent& at = plan_.at(read.field, run.first);
    const std::int64_t blocks = at.is_alone ? static_cast<std::int64_t>(run.count) : 1;
    const bool is_large = at.is_alone && files_.sample_bytes() >= kLargeSampleBytes;
    if (!is_large && files_.reads_ahead()) from->will_read(read.field, at.block + blocks, blocks);
  }

  /// Reads a run with retries, and reports its damaged samples.
  void load_alone(FieldRead& read, const ReadRun& run) {
    (void)attempt(run, [&](const StoredFile& from, bool is_copy) {
      std::string problem;
      try {
        load(from, read, run);
      } catch (const FileError&) {
        throw;
      } catch (const DataError& error) {
        problem = error.what();
      }
      for (std::size_t k = run.first; k < run.first + run.count; ++k) {
        if (read.good[k] != 0) continue;
        const std::string own = problem.empty() ? from.damage(read.field, plan_.at(read.field, k).block) : problem;
        if (is_copy) throw DataError(own);  // use_any() tries the file on shared storage next
        report(k, own);
      }
    });
  }

  /// Removes the gaps of damaged samples from a column; in a fixed field, fills them with zeros.
  void close_up(FieldRead& read) const {
    RawColumn& column = read.column;
    std::int64_t end = 0;
    for (std::size_t k = 0; k < plan_.size(); ++k) {
      const std::int64_t bytes = read.offsets[k + 1] - read.offsets[k];
      const bool stays = read.good[k] != 0 || is_fixed(read.field);
      std::byte* to = column.bytes.data() + end;
      if (read.good[k] == 0 && stays) std::fill_n(to, bytes, std::byte{0});
      if (read.good[k] != 0 && read.offsets[k] != end) std::memmove(to, column.bytes.data() + read.offsets[k], bytes);
      if (stays) end += bytes;
      if (!is_fixed(read.field)) column.offsets.push_back(end);
    }
    column.bytes.resize(end);
  }

  /// Opens the run's file and calls use(opened, is_copy), with retries; `is_copy` tells whether `opened` is the node's
  /// copy. Returns false if the file server stays in trouble, and reports the run's samples as damaged; if the caller
  /// of read() accepts no damaged samples, throws FileError instead.
  template <class Use>
  bool attempt(const ReadRun& run, const Use& use) {
    const auto error = attempts_.attempt(plan_.file(run.first), use);
    if (!error) return true;
    if (damaged_ == nullptr) throw FileError(*error);
    for (std::size_t k = run.first; k < run.first + run.count; ++k) report(k, error->what());
    return false;
  }

  void report(std::size_t k, const std::string& what) {
    if (damaged_ == nullptr) throw DataError(what + " (`mnshard verify` lists all damage of the dataset)");
    if (reported_.insert(k).second) damaged_->push_back({static_cast<std::int64_t>(k), what});
  }

  OpenFiles& files_;
  const StoredTable& table_;
  RawSamples& out_;
  std::vector<SampleError>* damaged_;
  std::optional<std::size_t> only_;  // if set, only this field is read
  ReadPlan plan_;
  ReadAttempts attempts_;
  std::set<std::size_t> reported_;  // samples reported already, for any field
};

}  // namespace

void read_samples(OpenFiles& files, std::span<const std::int64_t> indices, RawSamples& out,
                  std::vector<SampleError>* damaged, std::optional<std::size_t> only) {
  Reading(files, indices, out, damaged, only).run();
}

}  // namespace mn::data
