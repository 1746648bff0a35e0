#include "facts/find_library.hpp"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <elf.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>

#include "facts/elf.hpp"
#include "facts/find_program.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";

struct CacheHeader {
  char magic[20];
  std::uint32_t entries, text_bytes, flags, extensions, unused[3];
};
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name, path, os_version;
  std::uint64_t hardware;
};

/// The text from `at` to the next zero byte; empty if there is none.
std::string_view text_at(std::string_view cache, std::size_t at) {
  if (at >= cache.size()) return {};
  const std::size_t end = cache.find('\0', at);
  return end == std::string_view::npos ? std::string_view() : cache.substr(at, end - at);
}

/// All paths of `name` in the cache, the loader's choice first. The cache (/etc/ld.so.cache) is a header, entries and
/// their texts; offsets of texts count from the header, numbers have the machine's byte order. Before glibc 2.32 an
/// older form precedes the header. Source: sysdeps/generic/dl-cache.h of glibc.
std::vector<fs::path> paths_in_cache(const std::string& file, const std::string& name) {
  std::vector<fs::path> paths;
  const std::size_t begin = file.find(kCacheMagic);
  if (begin == std::string::npos) return paths;
  const std::string_view cache = std::string_view(file).substr(begin);
  CacheHeader header;
  if (cache.size() < sizeof header) return paths;
  std::memcpy(&header, cache.data(), sizeof header);
  for (std::size_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    const std::size_t at = sizeof header + i * sizeof entry;
    // A cache that is cut off, or that ldconfig is writing, has fewer entries than its header says.
    if (at + sizeof entry > cache.size()) break;
    std::memcpy(&entry, cache.data() + at, sizeof entry);
    if (text_at(cache, entry.name) == name) paths.emplace_back(text_at(cache, entry.path));
  }
  return paths;
}

std::string cache_of(const fs::path& root) {
  try {
    return read_file(root / "etc/ld.so.cache");
  } catch (const DataError&) {
    return "";
  }
}

/// The library folders named in the file, as LD_LIBRARY_PATH.
std::string run_path(const fs::path& file) {
  std::string list;
  for (const auto kind : {DT_RPATH, DT_RUNPATH}) {
    for (const auto& text : loader_texts(file, kind)) list += text + ":";
  }
  for (const std::string origin : {"$ORIGIN", "${ORIGIN}"}) {
    for (auto at = list.find(origin); at != std::string::npos; at = list.find(origin)) {
      list.replace(at, origin.size(), file.parent_path().string());
    }
  }
  return list;
}

}  // namespace

std::vector<fs::path> folders_of_mpi(const fs::path& program, const std::string& library_path) {
  std::vector<fs::path> folders;
  for (const auto& name : loader_texts(program, DT_NEEDED)) {
    const auto mpi =
        name.starts_with("libmpi.so.") ? find_library(name, library_path + ":" + run_path(program), "/") : std::nullopt;
    if (!mpi) continue;
    folders.push_back(mpi->parent_path());
    const std::string list = run_path(*mpi);
    for (const auto folder : split(list, ':')) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  return folders;
}

std::optional<fs::path> find_library(const std::string& name, const std::string& library_path, const fs::path& root) {
  // The order of ld.so(8): LD_LIBRARY_PATH, the cache, the usual folders.
  for (std::size_t begin = 0; begin < library_path.size();) {
    const std::size_t colon = std::min(library_path.find_first_of(":;", begin), library_path.size());
    const fs::path file = fs::path(library_path.substr(begin, colon - begin)) / name;
    if (is_file(file)) return file;
    begin = colon + 1;
  }
  for (const auto& path : paths_in_cache(cache_of(root), name)) {
    const fs::path file = root / path.relative_path();
    if (is_file(file)) return file;
  }
  for (const char* folder : {"lib64", "usr/lib64", "lib", "usr/lib"}) {
    if (is_file(root / folder / name)) return root / folder / name;
  }
  return std::nullopt;
}

}  // namespace mn::launcher
