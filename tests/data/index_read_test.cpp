// Indexed HDF5 files on slow or failing storage: this program's own pread() stands between the library and the system.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/hdf5_reader.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/index_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

/// Reads from files with these names are slow, or fail.
std::atomic<const char*> slow_name = nullptr, lost_name = nullptr;
std::atomic<int> at_once = 0, most_at_once = 0, lost_reads = 0;

bool is_of(int fd, const char* name) {
  char target[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return name != nullptr && readlink(link.c_str(), target, sizeof target - 1) > 0 &&
         std::string(target).find(name) != std::string::npos;
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, size_t count, off_t offset) {
  static const auto real = reinterpret_cast<decltype(&pread)>(dlsym(RTLD_NEXT, "pread"));
  if (is_of(fd, lost_name)) {
    ++lost_reads;
    errno = EIO;
    return -1;
  }
  if (is_of(fd, slow_name)) {
    const int now = ++at_once;
    for (int most = most_at_once; now > most && !most_at_once.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --at_once;
  }
  return real(fd, to, count, offset);
}

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = 10;

/// n numbers x = 0 … n − 1 in chunks with checksums, and as many images y of 40 kB each that begin with the number.
void write_numbers(const fs::path& path, hsize_t n) {
  const H5Lock lock;
  const H5 file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), path.string());
  const H5 creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
  const hsize_t chunk = kChunk;
  h5_check(H5Pset_chunk(creation.get(), 1, &chunk), "chunk");
  h5_check(H5Pset_fletcher32(creation.get()), "fletcher32");
  std::vector<std::int32_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  const H5 space(H5Screate_simple(1, &n, nullptr), "space");
  const H5 x(H5Dcreate2(file.get(), "x", H5T_STD_I32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), "x");
  h5_check(H5Dwrite(x.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), "x");
  std::vector<std::int32_t> images(n * 10'000);
  for (hsize_t i = 0; i < n; ++i) images[i * 10'000] = static_cast<std::int32_t>(i);
  h5_write_array(file.get(), "y", images, std::vector<hsize_t>{n, 10'000});
}

class IndexReads : public testing::Test {
 protected:
  void TearDown() override { slow_name = lost_name = nullptr; }

  Hdf5Table index(const std::vector<fs::path>& files) {
    return index_files(files, {{"x", "/x"}, {"y", "/y"}}, folder_.path(), "train");
  }
  std::unique_ptr<StoredDataset> open(const std::vector<fs::path>& files) {
    return std::make_unique<StoredDataset>(std::make_shared<const Hdf5Table>(index(files)));
  }
  void expect_sample(std::int64_t position, std::int32_t number) {
    for (const std::size_t field : {0U, 1U}) {
      std::int32_t found = -1;
      std::memcpy(&found, out_.sample(field, position).data(), sizeof found);
      EXPECT_EQ(found, number) << "field " << field;
    }
  }

  test::TemporaryFolder folder_;
  RawSamples out_;
};

TEST_F(IndexReads, ManyAreUnderWayAtOnce) {
  const fs::path file = folder_.path() / "late.h5";
  write_numbers(file, 400);
  const auto dataset = open({file});
  slow_name = "late.h5";
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 32; ++i) indices.push_back(i * 97 % 400);
  dataset->read(indices, out_);
  EXPECT_GE(most_at_once, 8);
  for (std::int64_t k = 0; k < 32; ++k) expect_sample(k, static_cast<std::int32_t>(indices[k]));
}

TEST_F(IndexReads, AFileThatIsLostIsWaitedForOnce) {
  write_numbers(folder_.path() / "good.h5", 50);
  write_numbers(folder_.path() / "lost.h5", 50);
  const auto dataset = open({folder_.path() / "good.h5", folder_.path() / "lost.h5"});
  lost_name = "lost.h5";
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 30; ++i) indices.push_back(i * 3);
  std::vector<SampleError> damaged;
  const auto begin = std::chrono::steady_clock::now();
  dataset->read(indices, out_, &damaged);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8)) << "2.6 s of pauses";
  EXPECT_LE(lost_reads, 30);
  std::set<std::int64_t> positions;
  for (const SampleError& each : damaged) {
    EXPECT_THAT(each.what, testing::HasSubstr("lost.h5"));
    EXPECT_TRUE(positions.insert(each.position).second) << "reported twice";
  }
  for (std::int64_t k = 0; k < 30; ++k) {
    EXPECT_EQ(positions.contains(k), indices[k] >= 50);
    if (indices[k] < 50) expect_sample(k, static_cast<std::int32_t>(indices[k]));
  }
  lost_name = nullptr;
  dataset->read(indices, out_);
  expect_sample(29, 37);
}

TEST_F(IndexReads, ADamagedChunkIsReadOnceOrTwiceForAllOfItsSamples) {
  const fs::path file = folder_.path() / "a.h5";
  write_numbers(file, 50);
  const StoredChunk chunk = index({file}).files()[0].arrays[0].chunks[2];
  const auto time = fs::last_write_time(file);
  { File(file, File::Mode::kUpdate).write_at(chunk.address + 1, std::vector(4, std::byte{0x55})); }
  fs::last_write_time(file, time);
  const auto dataset = open({file});
  std::vector<std::int64_t> indices(10);
  std::iota(indices.begin(), indices.end(), 20);
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  EXPECT_EQ(damaged.size(), 10U);
  EXPECT_LE(dataset->io().bytes, 10 * 40'000 + 2 * chunk.bytes);
}

}  // namespace
}  // namespace mn::data
