#include <mn/data/hdf5.hpp>

#include <algorithm>

#include <string.h>  // strnlen

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 32;  // a larger count can only come from damaged metadata

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// The first error lies at the bottom of HDF5's error stack.
std::string reason() {
  std::string text;
  const auto keep = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    if (error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep, &text);
  std::replace(text.begin(), text.end(), '\n', ' ');  // the time in a description ends with a newline
  return text.empty() ? "no reason given by HDF5" : text;
}

H5 attribute(hid_t object, const char* name) {
  return {H5Aopen(object, name, H5P_DEFAULT), std::string("cannot read attribute ") + name};
}

H5 string_type(std::size_t length) {
  H5 type(H5Tcopy(H5T_C_S1), "cannot make a string type");
  h5_check(H5Tset_size(type.get(), std::max<std::size_t>(length, 1)), "cannot make a string type");
  h5_check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "cannot make a string type");
  h5_check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "cannot make a string type");
  return type;
}

std::int64_t elements(const H5& space, const std::string& what) {
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count < 0 || count > kMaxElements) throw DataError(what + " has an impossible number of elements");
  return count;
}

/// Throws DataError unless the type is a string type of fixed length.
std::size_t string_length(const H5& type, const std::string& what) {
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0) {
    throw DataError(what + " does not hold strings of fixed length");
  }
  return H5Tget_size(type.get());
}

std::string trimmed(const char* text, std::size_t length) { return {text, strnlen(text, length)}; }

/// Throws DataError if the dataset's elements lie in other files.
H5 open_within(hid_t group, const char* name) {
  const std::string what = std::string("cannot read ") + name;
  H5 dataset = h5_open_dataset(group, name, what);
  const H5 creation(H5Dget_create_plist(dataset.get()), what);
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL || H5Pget_external_count(creation.get()) > 0) {
    throw DataError(what + ": its elements lie in other files");
  }
  return dataset;
}

}  // namespace

H5::H5(hid_t id, const std::string& what) : id_(id) {
  if (id < 0) throw DataError(what + ": " + reason());
}

void H5::reset() noexcept {
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  if (id >= 0) H5Idec_ref(id);
}

void H5::close(const std::string& what) {
  if (H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) < 0) throw DataError(what + ": " + reason());
}

void h5_check(herr_t status, const std::string& what) {
  if (status < 0) throw DataError(what + ": " + reason());
}

H5Lock::H5Lock() : lock_(library_mutex()) {
  // HDF5 1.10 has an exit handler that flushes files again, and crashes if a file could not be flushed (full disk). The
  // handler is not needed, because mn closes all files before exit.
  [[maybe_unused]] static const herr_t once = H5dont_atexit();
  // HDF5 must not print errors: mn throws them.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLget_loading_state(&plugins_);
  H5PLset_loading_state(0);
}

H5Lock::~H5Lock() { H5PLset_loading_state(plugins_); }

hid_t h5_stored_type(DType dtype) {
  const std::pair<DType, hid_t> types[] = {
      {DType::kUInt8, H5T_STD_U8LE},     {DType::kInt8, H5T_STD_I8LE},    {DType::kInt16, H5T_STD_I16LE},
      {DType::kUInt16, H5T_STD_U16LE},   {DType::kUInt32, H5T_STD_U32LE}, {DType::kUInt64, H5T_STD_U64LE},
      {DType::kInt32, H5T_STD_I32LE},    {DType::kInt64, H5T_STD_I64LE},  {DType::kFloat32, H5T_IEEE_F32LE},
      {DType::kFloat64, H5T_IEEE_F64LE},
  };
  const auto found = std::ranges::find(types, dtype, &std::pair<DType, hid_t>::first);
  if (found != std::end(types)) return found->second;
  throw ArgumentError("HDF5 has no type of its own for " + std::string(name_of(dtype)));
}

H5 h5_element_type(DType dtype) {
  const std::string what = "cannot make a type for " + std::string(name_of(dtype));
  if (dtype == DType::kBool) {  // as h5py stores bool
    H5 type(H5Tenum_create(H5T_STD_I8LE), what);
    for (const std::int8_t value : {0, 1})
      h5_check(H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value), what);
    return type;
  }
  if (dtype == DType::kFloat16) {
    H5 type(H5Tcopy(H5T_IEEE_F32LE), what);
    h5_check(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), what);
    h5_check(H5Tset_ebias(type.get(), 15), what);
    h5_check(H5Tset_size(type.get(), 2), what);
    return type;
  }
  if (dtype == DType::kBFloat16) return {H5Tcopy(H5T_STD_U16LE), what};
  return {H5Tcopy(h5_stored_type(dtype)), what};
}

H5 h5_file_access(const std::string& what) {
  H5 access(H5Pcreate(H5P_FILE_ACCESS), what);
// In older versions of HDF5, only an environment variable can switch file locking off.
#if H5_VERSION_GE(1, 12, 1) || (H5_VERS_MINOR == 10 && H5_VERS_RELEASE >= 7)
  h5_check(H5Pset_file_locking(access.get(), false, true), what);
#endif
  return access;
}

H5 h5_create_file(const std::filesystem::path& path, hsize_t user_block, hsize_t alignment) {
  const std::string what = "cannot create " + path.string();
  const H5 creation(H5Pcreate(H5P_FILE_CREATE), what);
  h5_check(H5Pset_userblock(creation.get(), user_block), what);
  const H5 access = h5_file_access(what);
  h5_check(H5Pset_alignment(access.get(), alignment, alignment), what);
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), what};
}

H5 h5_open_bytes(std::string_view bytes, const std::string& what) {
  constexpr std::size_t kIncrement = 64 << 10;
  const H5 access(H5Pcreate(H5P_FILE_ACCESS), what);
  h5_check(H5Pset_fapl_core(access.get(), kIncrement, false), what);
  std::string copy(bytes);  // HDF5 wants a writable pointer, and copies the bytes
  h5_check(H5Pset_file_image(access.get(), copy.data(), copy.size()), what);
  return {H5Fopen("bytes in memory", H5F_ACC_RDONLY, access.get()), what};
}

H5 h5_open_dataset(hid_t group, const char* name, const std::string& what) {
  const H5 access(H5Pcreate(H5P_DATASET_ACCESS), what);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; };
  h5_check(H5Pset_elink_cb(access.get(), refuse, nullptr), what);
  return {H5Dopen2(group, name, access.get()), what};
}

void h5_write_attribute(hid_t object, const char* name, const std::string& text) {
  const std::string what = std::string("cannot write attribute ") + name;
  const H5 space(H5Screate(H5S_SCALAR), what);
  const H5 type = string_type(text.size());
  const H5 attribute(H5Acreate2(object, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), what);
  h5_check(H5Awrite(attribute.get(), type.get(), text.c_str()), what);
}

void h5_write_attribute(hid_t object, const char* name, std::int64_t number) {
  const std::string what = std::string("cannot write attribute ") + name;
  const H5 space(H5Screate(H5S_SCALAR), what);
  const H5 attribute(H5Acreate2(object, name, H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT), what);
  h5_check(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &number), what);
}

std::string h5_read_text(hid_t object, const char* name) {
  const std::string what = std::string("attribute ") + name;
  const H5 source = attribute(object, name);
  const H5 type(H5Aget_type(source.get()), what);
  const std::size_t length = string_length(type, what);
  std::string text(length, '\0');
  h5_check(H5Aread(source.get(), type.get(), text.data()), what);
  return trimmed(text.data(), length);
}

std::int64_t h5_read_number(hid_t object, const char* name) {
  const std::string what = std::string("attribute ") + name;
  const H5 source = attribute(object, name);
  const H5 space(H5Aget_space(source.get()), what);
  if (elements(space, what) != 1) throw DataError("its attribute \"" + std::string(name) + "\" is not one number");
  std::int64_t number = 0;
  h5_check(H5Aread(source.get(), H5T_NATIVE_INT64, &number), what);
  return number;
}

H5 h5_dataset_creation(const std::string& what) {
  H5 creation(H5Pcreate(H5P_DATASET_CREATE), what);
  h5_check(H5Pset_obj_track_times(creation.get(), false), what);
  return creation;
}

void h5_write_strings(hid_t group, const char* name, const std::vector<std::string>& strings) {
  const std::string what = std::string("cannot write ") + name;
  std::size_t width = 1;
  for (const auto& text : strings) width = std::max(width, text.size());
  std::vector<char> packed(width * strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) std::copy(strings[i].begin(), strings[i].end(), &packed[i * width]);

  const hsize_t count = strings.size();
  const H5 space(H5Screate_simple(1, &count, nullptr), what);
  const H5 type = string_type(width);
  const H5 creation = h5_dataset_creation(what);
  const H5 out(H5Dcreate2(group, name, type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), what);
  if (count > 0) h5_check(H5Dwrite(out.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, packed.data()), what);
}

std::vector<std::string> h5_read_strings(hid_t group, const char* name) {
  const H5 source = open_within(group, name);
  const H5 type(H5Dget_type(source.get()), name);
  const H5 space(H5Dget_space(source.get()), name);
  const std::size_t width = string_length(type, name);
  const std::int64_t count = elements(space, name);
  // The width comes from the file, so it is checked before memory is allocated; elements() has checked `count`.
  if (width > 4096) throw DataError(std::string(name) + " has strings of impossible length");
  std::vector<char> packed(width * count);
  if (count > 0) h5_check(H5Dread(source.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, packed.data()), name);
  std::vector<std::string> strings;
  for (std::int64_t i = 0; i < count; ++i) strings.push_back(trimmed(&packed[i * width], width));
  return strings;
}

void h5_write_array(hid_t group, const char* name, ConstBufferView data, std::vector<hsize_t> shape) {
  if (shape.empty()) shape = {data.count};
  const std::string what = std::string("cannot write ") + name;
  const H5 space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), what);
  const H5 creation = h5_dataset_creation(what);
  const H5 out(
      H5Dcreate2(group, name, h5_stored_type(data.dtype), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), what);
  if (data.count == 0) return;
  h5_check(H5Dwrite(out.get(), h5_stored_type(data.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data), what);
}

void h5_read_array(hid_t group, const char* name, BufferView data) {
  const std::string what = std::string("cannot read ") + name;
  const H5 source = open_within(group, name);
  const H5 type(H5Dget_type(source.get()), what);
  const H5 space(H5Dget_space(source.get()), what);
  if (H5Tequal(type.get(), h5_stored_type(data.dtype)) <= 0 ||
      elements(space, name) != static_cast<std::int64_t>(data.count)) {
    throw DataError(std::string(name) + " has another type or length than it should");
  }
  if (data.count == 0) return;
  h5_check(H5Dread(source.get(), h5_stored_type(data.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data), what);
}

std::int64_t h5_count(hid_t group, const char* name) {
  const H5 source = open_within(group, name);
  return elements(H5(H5Dget_space(source.get()), name), name);
}

}  // namespace mn::data
