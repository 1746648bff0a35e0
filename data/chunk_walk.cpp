// Lists the chunks of a dataset in linear time. In HDF5 1.10, each call of H5Dget_chunk_info or
// H5Dget_chunk_info_by_coord goes through all chunks. H5Dread_chunk is quicker: it finds a chunk through the dataset's
// index of chunks, and then reads it through the file's driver (HDF5's layer for file access). mn opens the file with
// its own driver, which records the address and the length of the chunk instead of reading it.
//
// (1) Addresses count from the beginning of the file, including the user block: libhdf5 adds its length.
// (2) While a chunk is looked up, the driver only records reads of raw data. It does reads of the chunk index as usual.
// (3) The driver has locks and the feature SWMR. Otherwise libhdf5 would accept a file that its writer never closed.
#include "data/chunk_walk.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/file_kind.hpp>

#include "data/index_problems.hpp"

namespace mn::data {
namespace {

using Notes = ChunkedFile::Notes;

/// A file that libhdf5 has opened through mn's driver. libhdf5 fills in the base class; the driver owns the object.
struct OpenFile : H5FD_t {
  OpenFile(File opened, Notes* taken) : H5FD_t(), file(std::move(opened)), bytes(file.size()), notes(taken) {}
  File file;
  haddr_t bytes;
  Notes* notes;
  haddr_t end = 0;  // end of the space that libhdf5 has allocated
};

OpenFile& open_file(H5FD_t* file) { return *static_cast<OpenFile*>(file); }
const OpenFile& open_file(const H5FD_t* file) { return *static_cast<const OpenFile*>(file); }

H5FD_t* open_driver(const char* name, unsigned, hid_t access, haddr_t) {
  const auto* notes = static_cast<Notes* const*>(H5Pget_driver_info(access));
  try {
    return notes == nullptr ? nullptr : new OpenFile(File(name, File::Mode::kRead), *notes);
    // A driver can't return a reason. ChunkedFile's constructor opens the file before, and throws the reason.
  } catch (const std::exception&) {
    return nullptr;
  }
}

herr_t close_driver(H5FD_t* file) {
  delete &open_file(file);
  return 0;
}

herr_t read_bytes(H5FD_t* driver, H5FD_mem_t type, hid_t, haddr_t address, size_t bytes, void* out) {
  const OpenFile& file = open_file(driver);
  if (file.notes->is_noting && type == H5FD_MEM_DRAW) {  // invariant 2: raw data, not the index
    file.notes->address = address;
    file.notes->bytes = bytes;
    return 0;
  }
  try {
    const haddr_t there = std::min<haddr_t>(bytes, file.bytes - std::min(address, file.bytes));
    file.file.read_at(address, std::span(static_cast<std::byte*>(out), there));
    // Beyond the end of the file libhdf5 gets zeros, as from HDF5's own drivers.
    std::memset(static_cast<std::byte*>(out) + there, 0, bytes - there);
    return 0;
  } catch (const DataError&) {
    return -1;
  }
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

const H5FD_class_t& driver_class() {
  static const H5FD_class_t kDriver = [] {
    H5FD_class_t driver = {};
#ifdef H5FD_CLASS_VERSION
    driver.version = H5FD_CLASS_VERSION;
    driver.value = static_cast<H5FD_class_value_t>(512);  // the first value not reserved by HDF5
#endif
    driver.name = "mn_chunks";
    driver.maxaddr = (haddr_t{1} << 63) - 1;
    driver.fc_degree = H5F_CLOSE_WEAK;
    driver.fapl_size = sizeof(Notes*);
    driver.open = open_driver;
    driver.close = close_driver;
    driver.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return open_file(file).end; };
    driver.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t end) -> herr_t {
      open_file(file).end = end;
      return 0;
    };
    driver.get_eof = [](const H5FD_t* file, H5FD_mem_t) { return open_file(file).bytes; };
    driver.read = read_bytes;
    driver.query = [](const H5FD_t*, unsigned long* features) -> herr_t {  // invariant 3
      *features = H5FD_FEAT_SUPPORTS_SWMR_IO;
      return 0;
    };
    driver.lock = [](H5FD_t*, hbool_t) -> herr_t { return 0; };  // invariant 3; never called
    driver.unlock = [](H5FD_t*) -> herr_t { return 0; };
    driver.write = refuse_write;
    const H5FD_mem_t one_type[] = H5FD_FLMAP_SINGLE;
    std::ranges::copy(one_type, driver.fl_map);
    return driver;
  }();
  return kDriver;
}

}  // namespace

ChunkedFile::ChunkedFile(const std::filesystem::path& path) {
  const std::string what = path.string() + " can't be opened as an HDF5 file";
  (void)File(path, File::Mode::kRead);  // throws an error with the reason if the file can't be read
  driver_ = H5(H5FDregister(&driver_class()), what);
  const H5 access = h5_file_access(what);
  const Notes* notes = notes_.get();
  h5_check(H5Pset_driver(access.get(), driver_.get(), &notes), what);
  try {
    file_ = H5(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), what);
  } catch (const DataError& error) {
    const auto kind = kind_of_file(begin_of_file(File(path, File::Mode::kRead)));
    if (!kind || H5Fis_hdf5(path.c_str()) > 0) throw DataError(error.what() + remedy_of(error.what()));
    throw DataError(path.string() + " is not an HDF5 file but " + kind->name + ": " + kind->remedy);
  }
}

ChunkedFile::~ChunkedFile() {
  file_.reset();
  driver_.reset();
}

StoredChunk ChunkedFile::chunk_at(hid_t dataset, const std::vector<hsize_t>& corner) {
  std::byte unused = {};  // the driver reads nothing into it
  std::uint32_t skipped = 0;
  *notes_ = {.is_noting = true};
  const herr_t status = H5Dread_chunk(dataset, H5P_DEFAULT, corner.data(), &skipped, &unused);
  notes_->is_noting = false;
  if (status >= 0 && notes_->bytes <= ~std::uint32_t{0} && notes_->address != kNotStored) {
    return {.address = notes_->address, .bytes = static_cast<std::uint32_t>(notes_->bytes), .skipped = skipped};
  }
  return {};
}

}  // namespace mn::data
