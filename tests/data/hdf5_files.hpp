/// HDF5 files of numbers by rule, in any layout, written and read by libhdf5.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <mn/data/hdf5.hpp>

namespace mn::data {

namespace fs = std::filesystem;

/// The storage of an HDF5 dataset of a test.
struct Stored {
  DType dtype = DType::kFloat32;
  std::vector<hsize_t> shape;       // shape of a sample
  std::vector<hsize_t> chunk = {};  // empty: contiguous
  bool is_packed = false;           // shuffle, gzip, fletcher32
  bool is_big_endian = false;
  hsize_t written = ~hsize_t{0};  // number of first samples; the rest is the fill value
};

inline H5 type_of(const Stored& how) {
  H5 type = h5_element_type(how.dtype);
  if (how.is_big_endian) h5_check(H5Tset_order(type.get(), H5T_ORDER_BE), "order");
  return type;
}

/// Adds NAME with n samples of numbers 0 … 99, which any type holds (bool: 0 and 1).
inline void add_array(hid_t file, const std::string& name, hsize_t n, const Stored& how) {
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

inline void write_hdf5(const fs::path& path, hsize_t n, const Arrays& arrays, hsize_t user_block = 0) {
  const H5Lock lock;
  const H5 creation(H5Pcreate(H5P_FILE_CREATE), "creation");
  if (user_block > 0) h5_check(H5Pset_userblock(creation.get(), user_block), "user block");
  H5 file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), path.string());
  for (const auto& [name, how] : arrays) add_array(file.get(), name, n, how);
  file.close(path.string());
}

/// The values as libhdf5 reads them.
inline std::vector<std::byte> by_libhdf5(const fs::path& path, const std::string& name, DType dtype) {
  const H5Lock lock;
  const H5 file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), path.string());
  const H5 dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), name);
  const H5 space(H5Dget_space(dataset.get()), name);
  std::vector<std::byte> bytes(H5Sget_simple_extent_npoints(space.get()) * size_of(dtype));
  const H5 type = h5_element_type(dtype);
  h5_check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), name);
  return bytes;
}

}  // namespace mn::data
