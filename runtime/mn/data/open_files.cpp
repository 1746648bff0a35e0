#include <mn/data/open_files.hpp>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/memory.hpp>

namespace mn::data {

std::int64_t default_cache_bytes() { return std::min(kMaxCacheBytes, memory_of_rank() / 4); }

std::int64_t block_room(const StorageLayout& layout, const StoredDatasetOptions& options, int ranks) {
  constexpr std::int64_t kForEach = std::int64_t{64} << 20;
  const std::int64_t shared = ranks == 1 ? options.cache_bytes : kForEach + options.cache_bytes / ranks;
  return std::max(std::min(options.cache_bytes, shared), 2 * layout.live_bytes);
}

OpenFiles::OpenFiles(std::shared_ptr<const StoredTable> table, const StoredDatasetOptions& options,
                     std::shared_ptr<IoCounters> counters)
    : table_(std::move(table)),
      options_(options),
      counters_(std::move(counters)),
      layout_(table_->layout()),
      block_room_(block_room(layout_, options, 1)),
      open_(options.index_bytes),
      blocks_(block_room_),
      budget_(open_, std::min(options.open_files, static_cast<std::int64_t>(table_->num_files()))) {}

std::shared_ptr<const StoredFile> OpenFiles::get(std::size_t key, std::size_t file,
                                                 const std::function<File()>& open_bytes) {
  return open_.get(key, [&]() -> LruCache<StoredFile>::NewValue {
    auto opened = budget_.with_room([&] { return table_->open(file, open_bytes(), counters_); });
    // One limit for handles and memory: a file costs its share of the larger of the two.
    const std::int64_t cost = std::max(opened->index_bytes(), options_.index_bytes / options_.open_files);
    return {std::move(opened), cost};
  });
}

OpenFiles::Opened OpenFiles::open(std::size_t file) {
  if (stage_ != nullptr) {
    if (stage_->has_copy(file)) {
      try {
        return {get(key_of_copy(file), file, [&] { return stage_->copy_of(file); }), true};
      } catch (const DataError& error) {
        const auto* of_file = dynamic_cast<const FileError*>(&error);
        if (of_file != nullptr && FileBudget::is_exhausted(*of_file)) throw;  // the copy is good
        stage_->drop(file, error.what());
      }
    }
    stage_->want(file);
  }
  return {get(file, file, [&] {
    table().check_unchanged(file);
    return File(table().path(file), File::Mode::kRead);
  })};
}

void OpenFiles::close(std::size_t file) {
  open_.erase(file);
  open_.erase(key_of_copy(file));
}

void OpenFiles::drop_copy(std::size_t file, const std::string& why) {
  stage_->drop(file, why);
  open_.erase(key_of_copy(file));
}

/// A spec has at most 64 fields; 2^24 files of 2^34 blocks of several samples.
std::uint64_t OpenFiles::key_of(std::size_t file, std::size_t field, std::int64_t block) {
  return static_cast<std::uint64_t>(file) << 40 | static_cast<std::uint64_t>(field) << 34 |
         static_cast<std::uint64_t>(block);
}

std::shared_ptr<const ByteBuffer> OpenFiles::block(const StoredFile& from, std::size_t file, std::size_t field,
                                                   std::int64_t number) {
  return blocks_.get(key_of(file, field, number), [&]() -> LruCache<ByteBuffer>::NewValue {
    warn_of_little_room();
    auto made = from.load_block(field, number);
    const std::int64_t bytes = std::ssize(*made);
    const bool stays = layout_.bytes <= block_room_;
    return {std::move(made), bytes, stays ? LruCache<ByteBuffer>::kUnlimited : from.samples_in(field, number)};
  });
}

void OpenFiles::warn_of_little_room() {
  constexpr std::int64_t kFewBlocks = 1000;
  if (warned_) return;
  const auto [made, dropped] = blocks_.made_and_dropped();
  if (made < kFewBlocks || 2 * dropped < made || warned_.exchange(true)) return;
  log_warning("blocks of " + table().folder() + " are read more than once: the blocks in use do not fit into " +
              std::to_string(block_room_ >> 20) +
              " MiB; give the process, or its loader (LoaderOptions::prefetch_bytes), more memory");
}

void OpenFiles::share(int ranks) {
  if (layout_.bytes <= kFullShuffleBytes) return;  // such a dataset stays in memory whole
  hold_at_most(block_room(layout_, options_, ranks));
}

void OpenFiles::hold_at_most(std::int64_t bytes) {
  block_room_ = std::min<std::int64_t>(block_room_, std::max(bytes, 2 * layout_.live_bytes));
  blocks_.set_capacity(block_room_);
}

void OpenFiles::stage(const StageOptions& options, std::shared_ptr<const StageNode> node) {
  stage_ = std::make_unique<FileStage>(table(), std::move(node), options);
}

}  // namespace mn::data
