// Ordinary HDF5 files, indexed: a reader gets libhdf5's own values of libhdf5's files, at any number of ranks.
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
#include <mn/data/hdf5.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/loader/scatter.hpp>

#include "data/index_files.hpp"
#include "tests/data/hdf5_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using testing::HasSubstr;

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
      {"i", {.dtype = DType::kUInt16, .shape = {9}, .chunk = {7, 9}, .is_packed = true, .is_big_endian = true}},
      {"j", {.dtype = DType::kUInt32, .shape = {3}}},
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

TEST_F(Index, NamesWhatIsWrong_on_1_rank) {
  const Arrays arrays = {{"x", {.shape = {3}, .chunk = {10, 3}, .is_packed = true}}};
  const fs::path good = path_ / "good.h5";
  write_hdf5(good, 25, arrays);
  EXPECT_THAT(problem({good}, {{"x", "/y"}}), HasSubstr("good.h5: /y is not there; the file has /x"));
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

/// The data's identity in checkpoints.
std::uint64_t fingerprint_of(const fs::path& folder) { return open_dataset(folder.string())->fingerprint(); }

TEST_F(Index, FilesThatWereTouchedCopiedOrRepackedAreTheSameData_on_1_rank) {
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

TEST_F(Index, IsLinearInChunks_on_1_rank) {
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

TEST_F(Index, CountsClasses_on_1_rank) {
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

TEST_F(Index, LinksToOtherFilesAndPlugInsAreRefused_on_1_rank) {
  write_hdf5(path_ / "other.h5", 25, {{"x", {.shape = {3}}}});
  unsigned within = 1, after = 0;
  {
    const H5Lock lock;
    H5PLget_loading_state(&within);
    const H5 file(H5Fcreate((path_ / "link.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "file");
    h5_check(H5Lcreate_external("other.h5", "/x", file.get(), "x", H5P_DEFAULT, H5P_DEFAULT), "link");
  }
  H5PLget_loading_state(&after);
  EXPECT_EQ(within, 0U);
  EXPECT_NE(after, 0U) << "the program's own setting";
  EXPECT_THAT(problem({path_ / "link.h5"}, {{"x", "/x"}}), HasSubstr("link.h5: /x is a link to another file: index "));
}

TEST_F(Index, FiltersThatAreNotThereAreNamed_on_1_rank) {
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

}  // namespace
}  // namespace mn::data
