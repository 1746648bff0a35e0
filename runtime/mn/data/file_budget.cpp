#include <mn/data/file_budget.hpp>

#include <algorithm>
#include <cerrno>
#include <vector>

#include <sys/resource.h>

namespace mn::data {
namespace {

constexpr std::int64_t kOwn = 256;  // files of the program: libraries, sockets, logs

struct Member {
  LruCache<StoredFile>* cache;
  std::int64_t wanted;
};

/// The budget of the process, as the system's limit is the process's.
struct Budget {
  std::mutex mutex;
  std::vector<Member> members;
  std::int64_t opening = 0;
  std::int64_t most = 0;  // files

  /// Raises the system's limit to the sum of all members' wishes.
  void resize() {
    std::int64_t wanted = 0;
    for (const Member& member : members) wanted += member.wanted;
    rlimit limit = {};
    most = wanted;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const auto needed = static_cast<rlim_t>(wanted + kOwn);
    if (limit.rlim_cur < needed) {
      limit.rlim_cur = std::min(needed, limit.rlim_max);
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    const auto allowed = static_cast<std::int64_t>(std::min(limit.rlim_cur, needed));
    most = std::max<std::int64_t>(allowed - kOwn, 1);
  }

  [[nodiscard]] std::int64_t open_files() const {
    std::int64_t files = 0;
    for (const Member& member : members) files += member.cache->size();
    return files;
  }

  void close_down_to(std::int64_t files) {
    for (std::int64_t left = open_files(); left > files; --left) {
      const auto oldest = std::ranges::min_element(members, {}, [](const Member& m) { return m.cache->oldest_use(); });
      oldest->cache->drop_oldest();
    }
  }
};

Budget& budget() {
  static Budget of_process;
  return of_process;
}

}  // namespace

FileBudget::FileBudget(LruCache<StoredFile>& cache, std::int64_t wanted) : cache_(cache) {
  const std::lock_guard lock(budget().mutex);
  budget().members.push_back({&cache, wanted});
  budget().resize();
}

FileBudget::~FileBudget() {
  const std::lock_guard lock(budget().mutex);
  std::erase_if(budget().members, [&](const Member& member) { return member.cache == &cache_; });
  budget().resize();
}

FileBudget::Room::Room() {
  const std::lock_guard lock(budget().mutex);
  ++budget().opening;
  budget().close_down_to(std::max<std::int64_t>(budget().most - budget().opening, 0));
}

FileBudget::Room::~Room() {
  const std::lock_guard lock(budget().mutex);
  --budget().opening;
}

bool FileBudget::is_exhausted(const FileError& error) noexcept {
  return error.error_number() == EMFILE || error.error_number() == ENFILE;
}

bool FileBudget::close_half() {
  const std::lock_guard lock(budget().mutex);
  const std::int64_t open = budget().open_files();
  budget().close_down_to(open / 2);
  return open > 0;
}

FileError FileBudget::advised(const FileError& error) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {std::string(error.what()) + ": the program itself holds all " + std::to_string(limit.rlim_cur) +
              " files that this process may open; raise `ulimit -n`",
          error.error_number()};
}

}  // namespace mn::data
