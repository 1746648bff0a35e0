/// `mnshard index`: a manifest of HDF5 files that stay unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/hdf5_table.hpp>

namespace mn::data {

/// One field of the samples, and the path of its HDF5 dataset in each file.
struct IndexField {
  std::string name;
  std::string path;
};

/// Parses "NAME=/group/dataset". Throws UsageError for other texts.
[[nodiscard]] IndexField parse_index_field(const std::string& text);

/// The table of `files`, for a manifest in `folder`, which must exist. Throws DataError of one line that names the file
/// and the problem: a dataset that is missing, differs from the first file's, has a type without a tensor type, has a
/// filter that mn can't undo, or lies outside the file.
[[nodiscard]] Hdf5Table index_files(const std::vector<std::filesystem::path>& files,
                                    const std::vector<IndexField>& fields, const std::filesystem::path& folder,
                                    const std::string& split);

/// The table with the numbers of field `name` as classes; the number of classes is the largest number plus one. Reads
/// the field of all files. Throws UsageError if there is no such field or it has no integers, DataError if a number is
/// negative.
[[nodiscard]] Hdf5Table with_classes(const Hdf5Table& table, const std::string& name);

/// Throws DataError if a field of a file has samples of which none was ever written: the file's writer may have been
/// killed.
void check_written(const Hdf5Table& table);

/// One line on the cost of reading a field from its file, with a better layout if the cost is high.
[[nodiscard]] std::string cost_of(const Hdf5Table& table, std::size_t field);

}  // namespace mn::data
