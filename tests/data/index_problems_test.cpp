// HDF5 files that mnshard index rejects, and the messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/commands.hpp"
#include "data/index_files.hpp"
#include "hdf5_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class IndexProblems : public testing::Test {
 protected:
  std::string problem(const fs::path& file, const std::string& dataset) const {
    return test::message_of<DataError>([&] { (void)index_files({file}, {{"x", dataset}}, folder_.path(), "train"); });
  }
  /// A file with /g/x, to which `add` adds.
  template <class Add>
  void write(const fs::path& path, const Add& add) const {
    const H5Lock lock;
    const H5 access(H5Pcreate(H5P_FILE_ACCESS), "access");
    h5_check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "bounds");
    const H5 file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), path.string());
    const H5 group(H5Gcreate2(file.get(), "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "group");
    add_array(group.get(), "x", 8, {.shape = {3}, .chunk = {4, 3}});
    add(file.get());
  }
  static void add_dataset(hid_t file, const char* name, hid_t type, hid_t creation = H5P_DEFAULT) {
    const hsize_t count = 8;
    const H5 space(H5Screate_simple(1, &count, nullptr), "space");
    (void)H5(H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, creation, H5P_DEFAULT), name);
  }

  test::TemporaryFolder folder_;
  fs::path file_ = folder_.path() / "a.h5";
};

TEST_F(IndexProblems, AFileThatItsWriterLeftOpenNamesH5clear) {
  const pid_t writer = fork();
  if (writer == 0) {  // dies with unflushed data
    write(file_, [](hid_t file) {
      (void)H5Fflush(file, H5F_SCOPE_GLOBAL);
      add_array(file, "y", 8, {.shape = {}});
      _exit(0);
    });
  }
  waitpid(writer, nullptr, 0);
  EXPECT_THAT(problem(file_, "/g/x"), AllOf(HasSubstr("a.h5 can't be opened"), HasSubstr("`h5clear -s FILE`")));
  write(file_, [](hid_t) {});
  EXPECT_NO_THROW((void)index_files({file_}, {{"x", "/g/x"}}, folder_.path(), "train"));
}

TEST_F(IndexProblems, DatasetsThatAreElsewhereOrNotThereAreNamed) {
  write(file_, [](hid_t file) {
    (void)H5Lcreate_external("other.h5", "/far", file, "link", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_external("other.h5", "/", file, "away", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_external("other.h5", "/far", file, "g/far", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("/link", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("away", file, "soft_away", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("x", file, "g/near", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("/gone", file, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("gone/y", file, "g/dangling", H5P_DEFAULT, H5P_DEFAULT);
    (void)H5Lcreate_soft("/circle", file, "circle", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(problem(file_, "/link"),
              HasSubstr("a.h5: /link is a link to another file: index other.h5 (/far) instead"));
  EXPECT_THAT(problem(file_, "/away/x"),
              HasSubstr("/away/x is behind /away, a link to another file: index other.h5 (/x) instead"));
  EXPECT_THAT(problem(file_, "/g/far/y/z"),
              HasSubstr("/g/far/y/z is behind /g/far, a link to another file: index other.h5 (/far/y/z) instead"));
  EXPECT_THAT(problem(file_, "/soft"),
              HasSubstr("/soft is behind /link, a link to another file: index other.h5 (/far) instead"));
  EXPECT_THAT(problem(file_, "/soft_away/x"),
              HasSubstr("is behind /away, a link to another file: index other.h5 (/x)"));
  EXPECT_NO_THROW((void)index_files({file_}, {{"x", "/g/near"}}, folder_.path(), "train"));
  EXPECT_THAT(problem(file_, "/dangling"),
              HasSubstr("/dangling is a soft link to /gone, which is not there; the file has /g/x"));
  EXPECT_THAT(problem(file_, "/dangling/y"),
              HasSubstr("/dangling/y is behind /dangling, a soft link to /gone, which is"));
  EXPECT_THAT(problem(file_, "g/dangling"), HasSubstr("g/dangling is a soft link to gone/y, which is not there"));
  EXPECT_THAT(problem(file_, "/circle"), HasSubstr("/circle is a soft link to /circle, which leads back to itself"));
  EXPECT_THAT(problem(file_, "/none"), HasSubstr("a.h5: /none is not there; the file has /g/x"));
  EXPECT_THAT(problem(file_, "/no/ne"), HasSubstr("/no/ne is not there; the file has /g/x"));
  EXPECT_THAT(problem(file_, "/g"), HasSubstr("/g is a group, not a dataset; the file has /g/x"));
}

TEST_F(IndexProblems, VirtualDatasetsNameTheirFilesAndThoseThatAreMissing) {
  write_hdf5(folder_.path() / "there.h5", 4, {{"d", {.shape = {}}}});
  write(file_, [](hid_t file) {
    const H5 creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
    const hsize_t count = 8, half = 4;
    const H5 space(H5Screate_simple(1, &count, nullptr), "space"),
        source(H5Screate_simple(1, &half, nullptr), "source");
    for (hsize_t begin = 0; const char* name : {"there.h5", "absent.h5"}) {
      (void)H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &begin, nullptr, &half, nullptr);
      h5_check(H5Pset_virtual(creation.get(), space.get(), name, "/d", source.get()), name);
      begin += half;
    }
    add_dataset(file, "v", H5T_IEEE_F32LE, creation.get());
  });
  EXPECT_THAT(problem(file_, "/v"),
              AllOf(HasSubstr("/v is a virtual dataset of parts of there.h5, absent.h5, of which absent.h5 is missing"),
                    Not(HasSubstr("h5repack"))));
}

TEST_F(IndexProblems, TypesThatAreNotTakenAreNamed) {
  write(file_, [](hid_t file) {
    const H5 narrow(H5Tcopy(H5T_STD_U16LE), "narrow");
    h5_check(H5Tset_precision(narrow.get(), 12), "precision");
    add_dataset(file, "u12", narrow.get());
    const H5 text(H5Tcopy(H5T_C_S1), "text");
    add_dataset(file, "text", text.get());
    const H5 record(H5Tcreate(H5T_COMPOUND, 8), "record");
    h5_check(H5Tinsert(record.get(), "a", 0, H5T_STD_I32LE), "a");
    h5_check(H5Tinsert(record.get(), "b", 4, H5T_IEEE_F32LE), "b");
    add_dataset(file, "record", record.get());
    const H5 list(H5Tvlen_create(H5T_IEEE_F32LE), "list");
    add_dataset(file, "list", list.get());
  });
  EXPECT_THAT(problem(file_, "/u12"), HasSubstr("/u12 holds uint16 of 12 bits; integers of 8 to 64 bits"));
  EXPECT_THAT(problem(file_, "/text"), HasSubstr("/text holds text;"));
  EXPECT_THAT(problem(file_, "/record"), HasSubstr("/record holds records of a, b;"));
  EXPECT_THAT(problem(file_, "/list"), HasSubstr("/list holds arrays of different lengths;"));
}

TEST_F(IndexProblems, NewerVersionsAndOtherFilesAreNamed) {
  write(file_, [](hid_t) {});
  constexpr std::uint64_t kVersionAt = 8;
  const std::byte newer{9};
  { File(file_, File::Mode::kUpdate).write_at(kVersionAt, std::span(&newer, 1)); }
  EXPECT_THAT(problem(file_, "/g/x"), HasSubstr("A newer HDF5 than "));
  write_file(file_, "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  EXPECT_THAT(problem(file_, "/g/x"), HasSubstr("a.h5 is not an HDF5 file but a Git LFS pointer: fetch"));
  write_file(file_, std::string(3000, 'x'));
  EXPECT_THAT(problem(file_, "/g/x"), HasSubstr("It is not an HDF5 file: look at it"));
  fs::remove(file_);
  write(file_, [](hid_t file) { add_dataset(file, "x", H5T_STD_U8LE); });
  fs::resize_file(file_, fs::file_size(file_) - 100);
  EXPECT_THAT(problem(file_, "/x"), HasSubstr("The file is cut off: copy it again"));
}

TEST_F(IndexProblems, NumbersThatCannotBeClassesAreNoClasses) {
  write(file_, [](hid_t file) {
    add_dataset(file, "y", H5T_STD_I64LE);
    const H5 dataset(H5Dopen2(file, "y", H5P_DEFAULT), "y");
    const std::int64_t values[8] = {0, std::int64_t{1} << 40};
    h5_check(H5Dwrite(dataset.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "y");
  });
  const Hdf5Table table = index_files({file_}, {{"y", "/y"}}, folder_.path(), "train");
  EXPECT_THAT(test::message_of<DataError>([&] { (void)with_classes(table, "y"); }),
              HasSubstr("a.h5: field y has the value 1099511627776, but classes are 0 to 2147483647"));
}

TEST_F(IndexProblems, UnsignedNumbersAreNamedAsTheyAre) {
  write(file_, [](hid_t file) {
    add_dataset(file, "y", H5T_STD_U64LE);
    const H5 dataset(H5Dopen2(file, "y", H5P_DEFAULT), "y");
    const std::uint64_t values[8] = {0, ~std::uint64_t{0}};
    h5_check(H5Dwrite(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "y");
  });
  const Hdf5Table table = index_files({file_}, {{"y", "/y"}}, folder_.path(), "train");
  EXPECT_THAT(test::message_of<DataError>([&] { (void)with_classes(table, "y"); }),
              HasSubstr("has the value 18446744073709551615, but classes are 0 to 2147483647"));
}

TEST_F(IndexProblems, FieldsThatWereNeverWrittenAreAnErrorUnlessAccepted) {
  write(file_, [](hid_t file) {
    add_array(file, "none", 8, {.shape = {}, .chunk = {4}, .written = 0});
    add_array(file, "flat", 8, {.shape = {}, .written = 0});
    add_array(file, "some", 8, {.shape = {}, .chunk = {4}, .written = 1});
    add_array(file, "empty", 0, {.shape = {}, .chunk = {4}});
  });
  const auto index = [&](const std::string& dataset, const std::string& unwritten) {
    const std::vector<std::string> files = {file_};
    Settings settings;
    settings.out = folder_.path() / (dataset + unwritten);
    settings.fields = {"x=/" + dataset};
    settings.unwritten = unwritten;
    return find_command("index")->run(files, settings);
  };
  for (const char* name : {"none", "flat"}) {
    EXPECT_THAT(test::message_of<DataError>([&] { (void)index(name, "fail"); }),
                AllOf(HasSubstr("a.h5: field x was never written: each of its 8 samples would be the fill value"),
                      HasSubstr("--unwritten fill")));
    EXPECT_EQ(index(name, "fill"), 0);
  }
  EXPECT_EQ(index("some", "fail"), 0);
  EXPECT_EQ(index("empty", "fail"), 0);
}

TEST_F(IndexProblems, ChunksThatWereNeverWrittenAreCounted) {
  write(file_, [](hid_t file) {
    add_array(file, "some", 20, {.shape = {}, .chunk = {5}, .written = 7});
    add_array(file, "none", 20, {.shape = {}, .written = 0});
  });
  const Hdf5Table table = index_files({file_}, {{"a", "/some"}, {"b", "/none"}}, folder_.path(), "train");
  EXPECT_THAT(cost_of(table, 0), HasSubstr("2 of 4 chunks were never written: fill values are read"));
  EXPECT_THAT(cost_of(table, 1), HasSubstr("never written: fill values are read"));
}

}  // namespace
}  // namespace mn::data
