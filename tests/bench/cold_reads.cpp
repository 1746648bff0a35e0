// cold_reads make DIR SAMPLE_BYTES MIB [floats]: a dataset of samples of that length, as fields are (12 KB) or files
// (more), or of floats.
// cold_reads disk DIR THREADS [BYTES]: its files from beginning to end, 4 MiB a read: what the storage gives. Or in
// pieces of BYTES in random order, as a shuffling loader reads.
// cold_reads load DIR [WORKERS PREFETCH]: an epoch by a shuffling DataLoader that decodes nothing, 64 samples a batch.
// cold_reads load DIR delivered: likewise, and how many bytes the storage has delivered for each byte of samples.
// They first drop the files from the page cache; they print MB of samples per second.
// cold_reads bare DIR: MiB of memory that a process takes which has read a sample and holds none.
// cold_reads peak DIR BATCH MIB: 16 minibatches of BATCH samples by a shuffling DataLoader that may hold MIB. Prints
// the most MiB that the process has held beside what it holds before, and how many times MIB that is.
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

#include "tests/support/resident_bytes.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<std::filesystem::path> files_of(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

mn::FieldSpec field_of(std::int64_t bytes, bool floats) {
  if (floats) return {.name = "x", .dtype = mn::DType::kFloat32, .shape = {bytes / 4}};
  if (bytes > 64 << 10) return {.name = "file", .kind = mn::FieldKind::kEncoded};
  return {.name = "x", .shape = {bytes}};
}

void make(const std::string& folder, std::int64_t bytes, std::int64_t mib, bool floats) {
  const mn::SampleSpec spec = {{field_of(bytes, floats)}};
  mn::ShardWriter writer(folder, spec, {.shard_bytes = std::int64_t{128} << 20});
  mn::SplitMix64 numbers(1);
  std::vector<std::uint8_t> sample(bytes);
  for (std::int64_t i = 0; i < (mib << 20) / bytes; ++i) {
    for (std::size_t at = 0; at + 8 <= sample.size(); at += 8) {
      const std::uint64_t number = numbers.next();
      std::memcpy(sample.data() + at, &number, sizeof number);
    }
    writer.add({mn::ConstBufferView(sample.data(), sample.size() / size_of(spec[0].dtype), spec[0].dtype)});
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

double disk_rate(const std::string& folder, int threads, std::size_t piece_bytes, bool shuffled) {
  struct Piece {
    const mn::File* file;
    std::uint64_t offset;
    std::size_t bytes;
  };
  std::vector<mn::File> files;
  for (const auto& path : files_of(folder)) files.emplace_back(path, mn::File::Mode::kRead);
  std::vector<Piece> pieces;
  for (const mn::File& file : files) {
    for (std::uint64_t at = 0; at < file.size(); at += piece_bytes)
      pieces.push_back({&file, at, std::min<std::size_t>(piece_bytes, file.size() - at)});
  }
  mn::SplitMix64 numbers(1);
  for (std::size_t i = pieces.size(); shuffled && i > 1; --i) std::swap(pieces[i - 1], pieces[numbers.next() % i]);
  const double bytes = drop(folder);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    std::vector<std::byte> room(piece_bytes);
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

double mib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// What a process needs once, whatever it reads.
void read_one(const std::string& folder) {
  (void)mn::DataLoader(mn::open_dataset(folder), {.batchsize = 1, .workers = 1, .prefetch = 0}).next();
}

void print_peak(const std::string& folder, std::int64_t batch, std::int64_t budget) {
  using namespace std::chrono_literals;
  read_one(folder);
  const std::int64_t before = mn::test::resident_bytes();
  if (!mn::test::reset_peak_bytes()) throw mn::Error("the kernel does not tell the peak of memory");
  mn::DataLoader loader(mn::open_dataset(folder),
                        {.batchsize = batch, .shuffle = true, .workers = 4, .prefetch_bytes = budget});
  for (int step = 0; step < 16; ++step) {
    while (!loader.next()) continue;  // the end of an epoch
    std::this_thread::sleep_for(100ms);
  }
  const std::int64_t peak = mn::test::peak_bytes() - before;
  std::printf("%.0f MiB, %.2f of what it may hold\n", mib(peak), mib(peak) / mib(budget));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 2 ? argv[1] : "";
    if (what == "make" && argc >= 5) return make(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argc == 6), 0;
    if (what == "bare" && argc == 3) {
      read_one(argv[2]);
      return std::printf("%.0f\n", mib(mn::test::anonymous_bytes())), 0;
    }
    if (what == "peak" && argc == 5) {
      return print_peak(argv[2], std::atoi(argv[3]), std::int64_t{std::atoi(argv[4])} << 20), 0;
    }
    if (what == "disk" && (argc == 4 || argc == 5)) {
      const std::size_t bytes = argc == 5 ? std::atoi(argv[4]) : 4 << 20;
      return std::printf("%.0f\n", disk_rate(argv[2], std::atoi(argv[3]), bytes, argc == 5)), 0;
    }
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
        "usage: cold_reads make DIR SAMPLE_BYTES MIB [floats] | disk DIR THREADS [BYTES] | load DIR [delivered | "
        "WORKERS QUEUE] |\n"
        "       cold_reads bare DIR | peak DIR BATCH MIB\n");
    return 2;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "cold_reads: %s\n", error.what());
    return 1;
  }
}
