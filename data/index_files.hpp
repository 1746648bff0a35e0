/// Makes the table for `mnshard index`: a manifest of ordinary HDF5 files, which stay unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/hdf5_table.hpp>

namespace mn::data {

/// A field's name, and the path of the field's HDF5 dataset in each file.
struct IndexField {
  std::string name;
  std::string path;
};

/// Parses "NAME=/group/dataset". Throws UsageError if the text has another form.
[[nodiscard]] IndexField parse_index_field(const std::string& text);

/// Makes the table of `files` for a manifest in `folder`, which must exist. If a dataset is missing, differs from the
/// first file's dataset, has elements for which mn has no dtype, has a filter that mn can't undo, or lies outside the
/// file, throws a DataError of one line that names the file and the problem.
[[nodiscard]] Hdf5Table index_files(const std::vector<std::filesystem::path>& files,
                                    const std::vector<IndexField>& fields, const std::filesystem::path& folder,
                                    const std::string& split);

/// Returns a table in which the values of the field `name` are classes. Reads the field in all files, because the
/// number of classes is the largest value + 1. Throws UsageError if there is no such field or its values are not
/// integers, and DataError if a value is negative or too large for a class.
[[nodiscard]] Hdf5Table with_classes(const Hdf5Table& table, const std::string& name);

/// Throws DataError if a file has samples, but a field of the file was never written, perhaps because the file's writer
/// was killed.
void check_written(const Hdf5Table& table);

/// One line of text about the cost of reading a sample of a field. If the cost is high, the line recommends a better
/// layout of the file.
[[nodiscard]] std::string cost_of(const Hdf5Table& table, std::size_t field);

}  // namespace mn::data
