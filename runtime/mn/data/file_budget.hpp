/// How many files this process's datasets hold open together: the system's limit is the process's, not a dataset's.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

/// One cache's membership in the budget of the process.
///
/// (1) The files in all caches and those that are being opened are at most as many as the system's limit leaves beside
///     the program's own; the file that has been unused for longest goes first, whichever dataset it is of.
/// (2) Where the system has no file left all the same, caches close theirs, and the file is opened again.
/// (3) The budget's lock is taken before a cache's, never while one is held.
///
/// Cost: one lock a file opened; nothing where a file is open.
class FileBudget {
 public:
  /// Raises the system's limit for `wanted` files more, as far as the system lets it. `cache` must outlive this.
  FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted);
  ~FileBudget();
  FileBudget(const FileBudget&) = delete;
  FileBudget& operator=(const FileBudget&) = delete;

  /// What open() returns, once there is room for one file. Throws what it throws; a FileError that says what to do
  /// where the system has no file left and no cache has one to close.
  template <class Open>
  [[nodiscard]] auto with_room(const Open& open) {
    const Room room;
    while (true) {
      try {
        return open();
      } catch (const FileError& error) {
        if (!is_exhausted(error)) throw;
        if (!close_half()) throw advised(error);
      }
    }
  }

  /// Whether that is what went wrong: nothing is wrong with the file.
  [[nodiscard]] static bool is_exhausted(const FileError& error) noexcept;

 private:
  /// Room for a file that is being opened.
  struct Room {
    Room();
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
  };
  /// Whether any was closed.
  [[nodiscard]] static bool close_half();
  [[nodiscard]] static FileError advised(const FileError& error);

  LruCache<StoredFile>& cache_;
};

}  // namespace mn::data
