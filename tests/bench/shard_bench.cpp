// shard_bench read DIR THREADS: the samples of a dataset in random order, fixed ones 64 and encoded ones 1 at a time,
// each once an epoch; again and again for a second, fixed ones each time from closed files. Prints samples per second.
// shard_bench hdf5 DIR THREADS: the same by H5Dread, a sample at a time, under libhdf5's lock.
// shard_bench pread DIR THREADS: the first field of the same samples by one bare pread each, into memory that is there
// already, without a look at the bytes: the most that reading files of that layout can give.
// shard_bench checked DIR THREADS: likewise, and their checksums: the most that reading and checking them can give.
// shard_bench index DIR: makes 1,000 shards of 1,300 samples in DIR if it is empty, then times index and scatter as
// 1,024 ranks would do them, one rank after another.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/order.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/scattered_dataset.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_reader.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using namespace mn;

constexpr data::OrderOptions kShuffled = {.shuffle = true};

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

constexpr std::int64_t kLeastSamples = 20'000;  // samples of a measurement: threads must start and files be opened

/// Samples per second of one or more whole epochs: read(indices, buffer) for `batch` indices at a time, a thread for
/// each buffer.
template <class Buffer, class Read>
double read_epochs(std::int64_t n, std::int64_t batch, std::int64_t seed, std::vector<Buffer>& buffers,
                   const Read& read) {
  std::vector<data::EpochOrder> orders;
  const std::int64_t total = std::max<std::int64_t>(kLeastSamples / n, 1) * n;
  for (std::int64_t epoch = 0; epoch < total / n; ++epoch) orders.emplace_back(n, kShuffled, seed, epoch);
  std::atomic<std::int64_t> next = 0;
  const auto work = [&](Buffer& out) {
    std::vector<std::int64_t> indices;
    for (std::int64_t first = next.fetch_add(batch); first < total; first = next.fetch_add(batch)) {
      indices.clear();
      for (std::int64_t p = first; p < std::min(first + batch, total); ++p) indices.push_back(orders[p / n](p % n));
      read(indices, out);
    }
  };
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (Buffer& buffer : buffers) workers.emplace_back([&] { work(buffer); });
  }
  return static_cast<double>(total) / ms_since(begin) * 1e3;
}

/// The harmonic mean of measurements that take a second together, after one that warms up.
template <class Measure>
void print_rate(const Measure& samples_per_second) {
  (void)samples_per_second(0);
  double inverse_sum = 0;
  int measurements = 0;
  const auto begin = Clock::now();
  while (ms_since(begin) < 1000) inverse_sum += 1 / samples_per_second(++measurements);
  std::printf("%.0f\n", measurements / inverse_sum);
}

void run_read(const std::string& folder, int threads) {
  const std::string table = open_dataset(folder)->table();
  std::vector<RawSamples> buffers(threads);
  print_rate([&](std::int64_t seed) {
    const auto dataset = open_table(table);
    const std::int64_t batch = dataset->spec().is_fixed() ? 64 : 1;
    return read_epochs(dataset->size(), batch, seed, buffers,
                       [&](const auto& indices, RawSamples& out) { dataset->read(indices, out); });
  });
}

/// One shard by libhdf5, a hyperslab for each sample.
class Hdf5Shard {
 public:
  explicit Hdf5Shard(const std::filesystem::path& path) {
    const data::ShardReader reader(data::open_shard(path), std::make_shared<data::IoCounters>());
    fixed_ = reader.header().spec.is_fixed();
    size_ = reader.size();
    for (std::int64_t i = 0; i < size_ && !fixed_; ++i) offsets_.push_back(offsets_.back() + reader.length(0, i));
    const data::H5Lock lock;
    file_ = {H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "opening"};
    values_ = {H5Dopen2(file_.get(), fixed_ ? "/data/x" : "/data/image", H5P_DEFAULT), "opening the samples"};
    space_ = {H5Dget_space(values_.get()), "their shape"};
    extent_.resize(H5Sget_simple_extent_ndims(space_.get()));
    H5Sget_simple_extent_dims(space_.get(), extent_.data(), nullptr);
  }

  [[nodiscard]] std::int64_t size() const { return size_; }

  void read(std::int64_t i, ByteBuffer& out) const {
    const data::H5Lock lock;
    std::vector<hsize_t> first(extent_.size()), count = extent_;
    first[0] = fixed_ ? i : offsets_[i];
    count[0] = fixed_ ? 1 : offsets_[i + 1] - offsets_[i];
    const hsize_t total = std::accumulate(count.begin(), count.end(), hsize_t{1}, std::multiplies<>());
    out.resize(total);
    H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(), nullptr);
    const data::H5 memory(H5Screate_simple(1, &total, nullptr), "memory");
    data::h5_check(H5Dread(values_.get(), H5T_NATIVE_UCHAR, memory.get(), space_.get(), H5P_DEFAULT, out.data()),
                   "reading");
  }

 private:
  bool fixed_ = false;
  std::int64_t size_ = 0;
  std::vector<hsize_t> offsets_ = {0};
  std::vector<hsize_t> extent_;
  data::H5 file_, values_, space_;
};

void run_hdf5(const std::string& folder, int threads) {
  const data::ShardTable table = data::read_manifest(folder);
  if (table.shards().size() != 1) throw DataError("hdf5 is for a dataset of one shard");
  const Hdf5Shard shard(table.path(0));
  std::vector<ByteBuffer> buffers(threads);
  print_rate([&](std::int64_t seed) {
    return read_epochs(shard.size(), 1, seed, buffers,
                       [&](const auto& indices, ByteBuffer& out) { shard.read(indices[0], out); });
  });
}

struct Place {
  const File* file;
  std::uint64_t offset;
  std::size_t bytes;
};

void run_pread(const std::string& folder, int threads, bool check) {
  const data::ShardTable table = data::read_manifest(folder);
  std::deque<File> files;
  std::vector<Place> places;
  for (std::size_t shard = 0; shard < table.shards().size(); ++shard) {
    const data::ShardReader reader(data::open_shard(table, shard), std::make_shared<data::IoCounters>());
    const File& file = files.emplace_back(table.path(shard), File::Mode::kRead);
    std::uint64_t offset = reader.header().fields[0].values.address;
    for (std::int64_t i = 0; i < reader.size(); ++i) {
      places.push_back({&file, offset, static_cast<std::size_t>(reader.length(0, i))});
      offset += places.back().bytes;
    }
  }
  const auto most = std::ranges::max_element(places, {}, &Place::bytes)->bytes;
  std::vector<std::vector<std::byte>> buffers(threads, std::vector<std::byte>(most));
  std::atomic<std::uint32_t> sum = 0;  // so that the checksums are computed
  const auto read = [&](const auto& indices, std::vector<std::byte>& buffer) {
    const Place& place = places[indices[0]];
    const auto out = std::span(buffer).first(place.bytes);
    place.file->read_at(place.offset, out);
    if (check) sum.fetch_xor(crc32c(out), std::memory_order_relaxed);
  };
  print_rate([&](std::int64_t seed) { return read_epochs(std::ssize(places), 1, seed, buffers, read); });
}

void make_many_shards(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const SampleSpec spec = labeled({.shape = {4}}, 1000);
  std::vector<data::ShardInfo> shards;
  for (std::size_t i = 0; i < 1000; ++i) {
    data::ShardContent content(spec);
    content.samples =
        labeled_samples(ByteBuffer(1300 * 4), std::vector<std::int64_t>(1300, static_cast<std::int64_t>(i)));
    shards.push_back(data::write_shard(folder / data::shard_file_name("train", i, 1000), content));
  }
  data::write_manifest(data::ShardTable(std::filesystem::absolute(folder).string(), "train", spec, shards));
}

void run_index(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / data::kDatasetManifest)) make_many_shards(folder);
  const auto begin = Clock::now();
  const auto dataset = open_dataset(folder.string());
  const std::int64_t n = dataset->size();
  const double root_ms = ms_since(begin);
  const std::string table = dataset->table();
  const double table_ms = ms_since(begin) - root_ms;

  constexpr int kRanks = 1024;
  double most = 0, sum = 0;
  std::int64_t samples = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto rank_begin = Clock::now();
    const SubDataset part(std::shared_ptr<const Dataset>(open_table(table)), rank, kRanks, {.shuffle = true});
    GlobalSampler sampler(part.global_size(), part.fingerprint(),
                          {.batchsize = 32,
                           .rank = rank,
                           .ranks = kRanks,
                           .order = data::default_order(n, {.bytes = std::int64_t{140} << 30, .files = 1000}, true)});
    samples += static_cast<std::int64_t>(sampler.next()->indices.size());
    const double ms = ms_since(rank_begin);
    most = std::max(most, ms);
    sum += ms;
  }
  std::printf("%lld samples in 1,000 shards; table of %zu bytes\n", static_cast<long long>(n), table.size());
  std::printf("root: manifest and 1,000 headers %.1f ms, table %.1f ms\n", root_ms, table_ms);
  std::printf("a rank: table, part and first step %.2f ms on average, %.2f ms at most (first steps: %lld samples)\n",
              sum / kRanks, most, static_cast<long long>(samples));
  std::printf("index and scatter, but for the broadcast: %.1f ms\n", root_ms + table_ms + most);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 4 && std::strcmp(argv[1], "read") == 0) return run_read(argv[2], std::stoi(argv[3])), 0;
    if (argc == 4 && std::strcmp(argv[1], "hdf5") == 0) return run_hdf5(argv[2], std::stoi(argv[3])), 0;
    if (argc == 4 && std::strcmp(argv[1], "pread") == 0) return run_pread(argv[2], std::stoi(argv[3]), false), 0;
    if (argc == 4 && std::strcmp(argv[1], "checked") == 0) return run_pread(argv[2], std::stoi(argv[3]), true), 0;
    if (argc == 3 && std::strcmp(argv[1], "index") == 0) return run_index(argv[2]), 0;
    std::fprintf(stderr, "usage: shard_bench read|hdf5|pread|checked DIR THREADS | index DIR\n");
    return 2;
  } catch (const mn::Error& error) {
    std::fprintf(stderr, "shard_bench: %s\n", error.what());
    return 1;
  }
}
