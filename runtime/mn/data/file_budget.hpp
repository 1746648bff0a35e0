/// How many files this process's datasets hold open together: the system's limit is the process's, not a dataset's.
#pragma once

#include <cstdint>

#include <mn/core/error.hpp>
#include <mn/data/lru_cache.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

/// The membership of one cache of open files in the budget of the process.
///
/// (1) All caches, and files being opened, hold at most the system's limit less the program's own files. The file that
///     was unused for longest, of any dataset, is closed first.
/// (2) If the system still has no file left, caches close half of their files, and the open is repeated.
/// (3) Lock order: the budget's lock, then a cache's lock.
///
/// Cost: one lock for each file that is opened.
class FileBudget {
 public:
  /// Raises the system's limit by `wanted` files, as far as the system permits. `cache` must outlive the budget.
  FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted);
  ~FileBudget();
  FileBudget(const FileBudget&) = delete;
  FileBudget& operator=(const FileBudget&) = delete;

  /// Returns the result of open() as soon as there is room for a file. Throws the errors of open(); if the system has
  /// no file left and no cache has one to close, the FileError names the remedy.
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

  /// Whether the process or the system had no file left; the file itself is not at fault.
  [[nodiscard]] static bool is_exhausted(const FileError& error) noexcept;

 private:
  /// Holds room for a file during its opening.
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
