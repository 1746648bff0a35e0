// Ordinary HDF5 files, indexed: what libhdf5 writes comes back as libhdf5 itself reads it, at any number of ranks.
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/data/chunk_filters.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/loader/scatter.hpp>

#include "data/index_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// How one HDF5 dataset of a test is stored.
struct Stored {
  DType dtype = DType::kFloat32;
  std::vector<hsize_t> shape;       // of a sample
  std::vector<hsize_t> chunk = {};  // empty: contiguous
  bool is_packed = false;           // shuffle, gzip, fletcher32
  bool is_big_endian = false;
  hsize_t written = ~hsize_t{0};  // the first so many samples; the rest is the fill value
};

H5 type_of(const Stored& how) {
  H5 type = h5_element_type(how.dtype);
  if (how.is_big_endian) h5_check(H5Tset_order(type.get(), H5T_ORDER_BE), "order");
  return type;
}

/// Adds NAME with n samples of numbers 0 … 99, which any type holds (bool: 0 and 1).
void add_array(hid_t file, const std::string& name, hsize_t n, const Stored& how) {
  std::vector<hsize_t> dims = {n};
  dims.insert(dims.end(), how.shape.begin(), how.shape.end());
  const H5 creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
  if (!how.chunk.empty()) h5_check(H5Pset_chunk(creation.get(), static_cast<int>(dims.size()), how.chunk.data()), "");
  if (how.is_packed) {
    h5_check(H5Pset_shuffle(creation.get()), "shuffle");
    h5_check(H5Pset_deflate(creation.get(), 4), "gzip");
    h5_check(H5Pset_fletcher32(creation.get()), "fletcher32");
  }
  const float seven = 7;
  if (how.dtype != DType::kBool) h5_check(H5Pset_fill_value(creation.get(), H5T_NATIVE_FLOAT, &seven), "fill");
  std::vector<hsize_t> most_dims = dims;
  if (!how.chunk.empty()) most_dims[0] = H5S_UNLIMITED;  // which lets a chunk be longer than the data
  const H5 space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), most_dims.data()), "space");
  const H5 type = type_of(how);
  const H5 dataset(H5Dcreate2(file, name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                   name);
  hsize_t elements = 1;
  for (const hsize_t extent : how.shape) elements *= extent;
  const hsize_t rows = std::min(n, how.written);
  std::vector<std::int8_t> values(rows * elements);
  const int most = how.dtype == DType::kBool ? 2 : 100;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int8_t>((i * 13 + i / 7 + 5) % most);
  if (values.empty()) return;
  std::vector<hsize_t> zeros(dims.size(), 0), counts = dims;
  counts[0] = rows;
  h5_check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, zeros.data(), nullptr, counts.data(), nullptr), name);
  const H5 memory(H5Screate_simple(static_cast<int>(counts.size()), counts.data(), nullptr), name);
  const H5 from = how.dtype == DType::kBool ? h5_element_type(DType::kBool) : H5(H5Tcopy(H5T_NATIVE_INT8), name);
  h5_check(H5Dwrite(dataset.get(), from.get(), memory.get(), space.get(), H5P_DEFAULT, values.data()), name);
}

using Arrays = std::map<std::string, Stored>;

void write_hdf5(const fs::path& path, hsize_t n, const Arrays& arrays, hsize_t user_block = 0) {
  const H5Lock lock;
  const H5 creation(H5Pcreate(H5P_FILE_CREATE), "creation");
  if (user_block > 0) h5_check(H5Pset_userblock(creation.get(), user_block), "user block");
  H5 file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), path.string());
  for (const auto& [name, how] : arrays) add_array(file.get(), name, n, how);
  file.close(path.string());
}

/// The values as libhdf5 reads them.
std::vector<std::byte> by_libhdf5(const fs::path& path, const std::string& name, DType dtype) {
  const H5Lock lock;
  const H5 file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), path.string());
  const H5 dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), name);
  const H5 space(H5Dget_space(dataset.get()), name);
  std::vector<std::byte> bytes(H5Sget_simple_extent_npoints(space.get()) * size_of(dtype));
  const H5 type = h5_element_type(dtype);
  h5_check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), name);
  return bytes;
}

const Arrays& all_layouts() {
  static const Arrays kArrays = {
      {"a", {.dtype = DType::kFloat32, .shape = {3, 5}, .chunk = {10, 3, 5}, .is_packed = true}},
      {"b", {.dtype = DType::kFloat64, .shape = {4}, .is_big_endian = true}},
      {"c", {.dtype = DType::kInt64, .shape = {}, .chunk = {7}, .is_packed = true, .is_big_endian = true}},
      {"d", {.dtype = DType::kFloat16, .shape = {5, 4}, .chunk = {4, 2, 3}}},
      {"e", {.dtype = DType::kBool, .shape = {6}, .chunk = {50, 6}, .is_packed = true}},
      {"f", {.dtype = DType::kInt16, .shape = {2}, .chunk = {8, 2}, .is_big_endian = true, .written = 11}},
      {"g", {.dtype = DType::kUInt8, .shape = {40000}}},
      {"h", {.dtype = DType::kInt32, .shape = {3}, .written = 0}},
  };
  return kArrays;
}

std::vector<IndexField> fields_of(const Arrays& arrays) {
  std::vector<IndexField> fields;
  for (const auto& each : arrays) fields.push_back({each.first, "/" + each.first});
  return fields;
}

class Index : public testing::Test {
 protected:
  Index() : comm_(create_communicator("naive")) {
    std::string path;
    if (comm_->rank() == 0) {
      folder_ = std::make_unique<test::TemporaryFolder>();
      path = folder_->path().string();
    }
    path_ = comm_->bcast_obj(path);
  }
  ~Index() override { comm_->barrier(); }

  Hdf5Table index(const std::vector<fs::path>& files, const Arrays& arrays) {
    Hdf5Table table = index_files(files, fields_of(arrays), path_, "train");
    write_hdf5_manifest(table);
    return table;
  }
  /// What index() throws.
  std::string problem(const std::vector<fs::path>& files, const std::vector<IndexField>& fields) {
    try {
      (void)index_files(files, fields, path_, "train");
    } catch (const DataError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    return "no error";
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<test::TemporaryFolder> folder_;
  fs::path path_;
};

TEST_F(Index, ReadsWhatLibhdf5Reads) {
  if (comm_->rank() == 0) {
    write_hdf5(path_ / "1.h5", 43, all_layouts());
    write_hdf5(path_ / "2.h5", 20, all_layouts(), 1024);
    (void)index({path_ / "1.h5", path_ / "2.h5"}, all_layouts());
  }
  comm_->barrier();
  const auto part = scatter_dataset(open_dataset(path_.string()), comm_, {.shuffle = true, .seed = 1});
  const Dataset& whole = *part->shared();
  ASSERT_EQ(whole.size(), 63);
  std::vector<std::int64_t> own;
  for (std::int64_t i = comm_->rank(); i < whole.size(); i += comm_->size()) own.push_back((i * 29) % 63);
  RawSamples out;
  whole.read(own, out);
  std::size_t f = 0;
  for (const auto& [name, how] : all_layouts()) {
    EXPECT_EQ(whole.spec()[f].name, name);
    const auto first = by_libhdf5(path_ / "1.h5", name, how.dtype);
    const auto second = by_libhdf5(path_ / "2.h5", name, how.dtype);
    const std::int64_t bytes = whole.spec()[f].sample_bytes();
    for (std::size_t k = 0; k < own.size(); ++k) {
      const std::byte* expected = own[k] < 43 ? first.data() + own[k] * bytes : second.data() + (own[k] - 43) * bytes;
      EXPECT_EQ(std::memcmp(out.sample(f, static_cast<std::int64_t>(k)).data(), expected, bytes), 0)
          << name << " of sample " << own[k];
    }
    ++f;
  }
}

TEST_F(Index, NamesWhatIsWrong) {
  if (comm_->rank() > 0) return;
  const Arrays arrays = {{"x", {.shape = {3}, .chunk = {10, 3}, .is_packed = true}}};
  const fs::path good = path_ / "good.h5";
  write_hdf5(good, 25, arrays);
  EXPECT_THAT(problem({good}, {{"x", "/y"}}), HasSubstr("good.h5: /y can't be opened as a dataset"));
  EXPECT_THAT(problem({path_ / "none.h5"}, {{"x", "/x"}}), HasSubstr("none.h5: No such file"));
  write_file(path_ / "text", "no HDF5");
  EXPECT_THAT(problem({path_ / "text"}, {{"x", "/x"}}), HasSubstr("can't be opened as an HDF5 file"));
  write_hdf5(path_ / "other.h5", 25, {{"x", {.shape = {4}}}});
  EXPECT_THAT(problem({good, path_ / "other.h5"}, {{"x", "/x"}}), HasSubstr("of another type or shape"));
  write_file(path_ / "cut.h5", read_file(good).substr(0, read_file(good).size() - 100));
  EXPECT_THAT(problem({path_ / "cut.h5"}, {{"x", "/x"}}), HasSubstr("cut.h5"));

  const Hdf5Table table = index({good}, arrays);
  // Each byte of a chunk changed, its file's times put back: a checksum says so.
  const auto times = fs::last_write_time(good);
  std::string bytes = read_file(good);
  bytes[table.files()[0].arrays[0].chunks[1].address + 3] ^= 1;
  { File(good, File::Mode::kUpdate).write_at(0, std::as_bytes(std::span(bytes))); }
  fs::last_write_time(good, times);
  const auto dataset = open_dataset(path_.string());
  RawSamples out;
  std::vector<SampleError> damaged;
  const std::vector<std::int64_t> indices = {3, 12, 24};
  dataset->read(indices, out, &damaged);
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_THAT(damaged[0].what, HasSubstr("the chunk of samples 10 to 19 of field x is damaged"));

  write_hdf5(good, 26, arrays);
  try {
    (void)open_dataset(path_.string())->size();
    ADD_FAILURE() << "a changed file was taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("good.h5 was "));
    EXPECT_THAT(error.what(), HasSubstr("after it was indexed"));
  }
}

/// What a checkpoint knows the data by.
std::uint64_t fingerprint_of(const fs::path& folder) { return open_dataset(folder.string())->fingerprint(); }

TEST_F(Index, FilesThatWereTouchedCopiedOrRepackedAreTheSameData) {
  if (comm_->rank() > 0) return;
  const Arrays arrays = {{"x", {.shape = {3}, .chunk = {10, 3}, .is_packed = true}},
                         {"y", {.dtype = DType::kInt64, .shape = {}}}};
  const fs::path file = path_ / "a.h5";
  write_hdf5(file, 25, arrays);
  (void)index({file}, arrays);
  const std::uint64_t expected = fingerprint_of(path_);

  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  EXPECT_THROW((void)fingerprint_of(path_), DataError) << "its chunks may have moved";
  (void)index({file}, arrays);
  EXPECT_EQ(fingerprint_of(path_), expected);

  Arrays other_layout = arrays;
  other_layout["x"].chunk = {4, 2};
  write_hdf5(file, 25, other_layout);
  (void)index({file}, arrays);
  EXPECT_EQ(fingerprint_of(path_), expected);

  other_layout["x"].written = 11;  // other values
  write_hdf5(file, 25, other_layout);
  (void)index({file}, arrays);
  EXPECT_NE(fingerprint_of(path_), expected);
}

TEST_F(Index, IsLinearInChunks) {
  if (comm_->rank() > 0) return;
  constexpr hsize_t kChunks = 100'000;
  const Arrays arrays = {{"x", {.dtype = DType::kInt8, .shape = {}, .chunk = {1}}}};
  const auto seconds = [&](hsize_t chunks) {
    Arrays own = arrays;
    own["x"].written = chunks;
    write_hdf5(path_ / "many.h5", chunks, own);
    const auto begin = std::chrono::steady_clock::now();
    const Hdf5Table table = index_files({path_ / "many.h5"}, fields_of(arrays), path_, "train");
    EXPECT_EQ(table.files()[0].arrays[0].chunks.size(), static_cast<std::int64_t>(chunks));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double few = seconds(kChunks / 20);
  EXPECT_LT(seconds(kChunks), 100 * few + 1) << "20 times the chunks of " << few << " s";
}

TEST_F(Index, CountsClasses) {
  if (comm_->rank() > 0) return;
  const Arrays arrays = {{"f", {.shape = {}}},
                         {"x", {.dtype = DType::kInt32, .shape = {}}},
                         {"y", {.dtype = DType::kInt64, .shape = {}, .chunk = {10}}}};
  const fs::path file = path_ / "labels.h5";
  write_hdf5(file, 25, arrays);
  Hdf5Table table = index({file}, arrays);
  std::int64_t most = 0;
  for (int i = 0; i < 25; ++i) most = std::max<std::int64_t>(most, (i * 13 + i / 7 + 5) % 100);
  for (const char* name : {"x", "y"}) {
    table = with_classes(table, name);
    EXPECT_EQ(table.spec()[table.spec().position(name)].num_classes, most + 1) << name;
  }
  EXPECT_THROW(static_cast<void>(with_classes(table, "f")), UsageError) << "no integers";

  const std::int32_t negative = -3;
  File(file, File::Mode::kUpdate)
      .write_at(table.files()[0].arrays[1].address + 4, std::as_bytes(std::span(&negative, 1)));
  try {
    static_cast<void>(with_classes(index({file}, arrays), "x"));
    ADD_FAILURE() << "a negative class was taken";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("labels.h5: field x has the value -3"));
  }
}

TEST_F(Index, FiltersThatAreNotThereAreNamed) {
  if (comm_->rank() > 0) return;
  {
    const H5Lock lock;
    const H5 file(H5Fcreate((path_ / "n.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "file");
    const hsize_t dims[] = {30};
    const H5 creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
    h5_check(H5Pset_chunk(creation.get(), 1, dims), "chunk");
    h5_check(H5Pset_scaleoffset(creation.get(), H5Z_SO_INT, 0), "scaleoffset");
    const H5 space(H5Screate_simple(1, dims, nullptr), "space");
    const H5 made(H5Dcreate2(file.get(), "x", H5T_STD_I32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                  "x");
  }
  EXPECT_THAT(problem({path_ / "n.h5"}, {{"x", "/x"}}), HasSubstr("n.h5: /x is packed by filter 6 (scaleoffset)"));
}

ByteBuffer bytes_from(std::initializer_list<int> values) {
  ByteBuffer bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ChunkFilters, UnpackLzf) {
  // "abc", then seven bytes from three back: "abcabcabca".
  const std::int32_t lzf[] = {32000};
  const ByteBuffer out = undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 10);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), "abcabcabca");
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 3}), lzf, 0, 1, 10), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 9), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({2, 'a', 'b', 'c', 5 << 5, 2}), lzf, 0, 1, 11), DataError);
  EXPECT_THROW((void)undo_filters(bytes_from({9, 'a'}), lzf, 0, 1, 10), DataError);
}

TEST(ChunkLists, AreWhatWasAdded) {
  std::vector<StoredChunk> chunks;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    chunks.push_back({.address = 4096 + i * 100, .bytes = 100});
    if (i % 7 == 0) chunks.push_back({});
    if (i % 11 == 0) chunks.push_back({.address = i * 977 % 500, .bytes = 4294967295U - static_cast<unsigned>(i)});
    if (i % 13 == 0) chunks.push_back({.address = ~std::uint64_t{1} - i, .bytes = 1, .skipped = 1U << (i % 32)});
  }
  ChunkList list;
  for (const StoredChunk& chunk : chunks) list.add(chunk);
  const ChunkList again(list.size(), list.code());
  ASSERT_EQ(again, list);
  std::size_t i = 0;
  again.for_each([&](const StoredChunk& chunk) { EXPECT_EQ(chunk, chunks[i++]); });
  EXPECT_EQ(i, chunks.size());
  for (i = 0; i < chunks.size(); ++i) EXPECT_EQ(again[static_cast<std::int64_t>(i)], chunks[i]) << i;
  EXPECT_THROW((void)ChunkList(list.size() + 1, list.code()), DataError);
  EXPECT_THROW((void)ChunkList(list.size() - 1, list.code()), DataError);
}

TEST(ChunkLists, TakeLittleMemory) {
  ChunkList list;
  std::uint64_t address = 4096;
  for (int i = 0; i < 1'000'000; ++i) {  // compressed, with another field's chunks in between
    const auto bytes = static_cast<std::uint32_t>(60'000 + i * 7919LL % 5000);
    list.add({.address = address, .bytes = bytes});
    address += bytes + 700 + i % 100;
  }
  list = ChunkList(list.size(), list.code());
  EXPECT_LE(list.memory_bytes(), (std::int64_t{64} << 20) / 10) << "64 MiB for 10 million";
}

TEST(Hdf5Tables, OfDamagedBytesAreErrors) {
  Hdf5File file{.path = "a.h5", .num_samples = 10, .bytes = 1000, .modified_ns = 5, .arrays = {{}}};
  file.arrays[0].fill = {0, 0, 0, 0};
  file.arrays[0].address = 100;
  const SampleSpec spec{{{.name = "x", .dtype = DType::kFloat32, .shape = {3}}}};
  const Hdf5Table table("/f", "train", spec, {file});
  const std::string bytes = table.serialize();
  EXPECT_EQ(Hdf5Table::parse(bytes).hash(), table.hash());
  EXPECT_EQ(Hdf5Table::parse(bytes).files(), table.files());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_THROW((void)Hdf5Table::parse(bytes.substr(0, at)), DataError);
    std::string other = bytes;
    other[at] ^= 0x11;
    try {
      (void)Hdf5Table::parse(other);
    } catch (const DataError&) {
    }
  }
  file.arrays[0].address = 881;  // one byte less than needed
  EXPECT_THROW((void)Hdf5Table("/f", "train", spec, {file}), DataError);
}

}  // namespace
}  // namespace mn::data
