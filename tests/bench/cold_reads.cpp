// cold_reads make DIR SAMPLE_BYTES MIB: a dataset of samples of that length, as fields are (12 KB) or files (more).
// cold_reads disk DIR THREADS: its files from beginning to end, 4 MiB a read: what the storage gives.
// cold_reads load DIR [WORKERS PREFETCH]: an epoch by a shuffling DataLoader that decodes nothing, 64 samples a batch.
// cold_reads load DIR delivered: likewise, and how many bytes the storage has delivered for each byte of samples.
// They first drop the files from the page cache; they print MB of samples per second.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/core/random.hpp>
#include <mn/data/shard_writer.hpp>
#include <mn/loader/loader.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<std::filesystem::path> files_of(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

void make(const std::string& folder, std::int64_t bytes, std::int64_t mib) {
  const bool is_file = bytes > 64 << 10;
  const mn::SampleSpec spec = {{is_file ? mn::FieldSpec{.name = "file", .kind = mn::FieldKind::kEncoded}
                                        : mn::FieldSpec{.name = "x", .shape = {bytes}}}};
  mn::ShardWriter writer(folder, spec, {.shard_bytes = std::int64_t{128} << 20});
  mn::SplitMix64 numbers(1);
  std::vector<std::uint8_t> sample(bytes);
  for (std::int64_t i = 0; i < (mib << 20) / bytes; ++i) {
    for (std::size_t at = 0; at + 8 <= sample.size(); at += 8) {
      const std::uint64_t number = numbers.next();
      std::memcpy(sample.data() + at, &number, sizeof number);
    }
    writer.add({sample});
  }
  writer.finish();
}

/// Part of the file's pages that are in memory.
double resident(int fd, std::size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  mincore(mapped, bytes, pages.data());
  munmap(mapped, bytes);
  return static_cast<double>(std::ranges::count_if(pages, [](unsigned char p) { return p & 1; })) /
         static_cast<double>(pages.size());
}

/// Drops the files from the page cache; returns their bytes.
double drop(const std::string& folder) {
  double total = 0;
  for (const auto& path : files_of(folder)) {
    const mn::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fsync(file.get());  // what is not written yet stays
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    const auto bytes = std::filesystem::file_size(path);
    if (resident(file.get(), bytes) > 0.05) std::fprintf(stderr, "%s stays in the page cache\n", path.c_str());
    total += static_cast<double>(bytes);
  }
  return total;
}

double disk_rate(const std::string& folder, int threads) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  struct Piece {
    const mn::File* file;
    std::uint64_t offset;
    std::size_t bytes;
  };
  std::vector<mn::File> files;
  for (const auto& path : files_of(folder)) files.emplace_back(path, mn::File::Mode::kRead);
  std::vector<Piece> pieces;
  for (const mn::File& file : files) {
    for (std::uint64_t at = 0; at < file.size(); at += kPiece)
      pieces.push_back({&file, at, std::min<std::size_t>(kPiece, file.size() - at)});
  }
  const double bytes = drop(folder);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    std::vector<std::byte> room(kPiece);
    for (std::size_t i = next++; i < pieces.size(); i = next++)
      pieces[i].file->read_at(pieces[i].offset, std::span(room).first(pieces[i].bytes));
  };
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) pool.emplace_back(work);
  }
  return bytes / since(begin) / 1e6;
}

mn::LoaderOptions as_bytes() {
  mn::LoaderOptions options{.batchsize = 64, .shuffle = true};
  options.transform = [](const mn::RawBatch& batch, std::vector<mn::SampleError>&) {
    return torch::full({1}, static_cast<double>(batch.samples.bytes()));
  };
  return options;
}

/// Bytes that the storage has read for this process.
double delivered() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 512.0 * static_cast<double>(usage.ru_inblock);
}

struct Loaded {
  double rate = 0;       // MB/s
  double delivered = 0;  // bytes for each byte of samples
};

Loaded load(const std::string& folder, const mn::LoaderOptions& options) {
  drop(folder);
  const double before = delivered();
  mn::DataLoader loader(mn::open_dataset(folder), options);
  double all = loader.next()->data.item<double>();  // opens the dataset
  const auto begin = Clock::now();
  double bytes = 0;
  while (const auto batch = loader.next()) bytes += batch->data.item<double>();
  all += bytes;
  return {bytes / since(begin) / 1e6, (delivered() - before) / all};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 2 ? argv[1] : "";
    if (what == "make" && argc == 5) return make(argv[2], std::atoi(argv[3]), std::atoi(argv[4])), 0;
    if (what == "disk" && argc == 4) return std::printf("%.0f\n", disk_rate(argv[2], std::atoi(argv[3]))), 0;
    if (what == "load" && argc == 4 && std::strcmp(argv[3], "delivered") == 0) {
      const Loaded loaded = load(argv[2], as_bytes());
      return std::printf("%.0f %.3f\n", loaded.rate, loaded.delivered), 0;
    }
    if (what == "load" && (argc == 3 || argc == 5)) {
      mn::LoaderOptions options = as_bytes();
      if (argc == 5) options.workers = std::atoi(argv[3]), options.prefetch = std::atoi(argv[4]);
      return std::printf("%.0f\n", load(argv[2], options).rate), 0;
    }
    std::fprintf(
        stderr,
        "usage: cold_reads make DIR SAMPLE_BYTES MIB | disk DIR THREADS | load DIR [delivered | WORKERS QUEUE]\n");
    return 2;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "cold_reads: %s\n", error.what());
    return 1;
  }
}
