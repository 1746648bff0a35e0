#include "data/inspect.hpp"

#include <iostream>
#include <memory>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/data/classes.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/open_files.hpp>

#include "data/commands.hpp"
#include "data/index_files.hpp"
#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

void print_index(const Hdf5Table& table) {
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.files().size()
            << (table.files().size() == 1 ? " file, " : " files, ") << table.total_bytes() << " bytes\n";
  for (std::size_t f = 0; f < table.spec().fields.size(); ++f) std::cout << "  " << cost_of(table, f) << "\n";
}

Hdf5Table open_index(const std::filesystem::path& folder) {
  Hdf5Table table = read_hdf5_manifest(folder);
  table.check_all();
  return table;
}

struct Block {
  std::size_t file;
  std::size_t field;
  std::int64_t number;
};

std::vector<Block> blocks_of(const Hdf5Table& table) {
  std::vector<Block> blocks;
  for (std::size_t file = 0; file < table.files().size(); ++file) {
    for (std::size_t f = 0; f < table.spec().fields.size(); ++f) {
      const std::int64_t step = table.files()[file].arrays[f].block_samples(table.spec()[f]);
      for (std::int64_t b = 0; b * step < table.files()[file].num_samples; ++b) blocks.push_back({file, f, b});
    }
  }
  return blocks;
}

/// Reads a block of values. Throws DataError if the block can't be read, or if the values are to be classes and one of
/// them is not a class.
void verify_block(OpenFiles& files, const Hdf5Table& table, const Block& block) {
  const auto file = files.open(block.file).file;
  const auto values = file->load_block(block.field, block.number);
  const FieldSpec& field = table.spec()[block.field];
  if (field.num_classes == 0) return;
  const ClassRange range = range_of(field.dtype, *values);
  if (range.is_in(field.num_classes)) return;
  const std::int64_t first = block.number * table.files()[block.file].arrays[block.field].block_samples(field);
  throw DataError(table.path(block.file).string() + ": among samples " + std::to_string(first) + " to " +
                  std::to_string(first + file->samples_in(block.field, block.number) - 1) + " a " + field.name +
                  " is " + range.outlier() + ", which is not a class");
}

}  // namespace

int run_index(Arguments arguments, const Settings& settings) {
  if (job_rank_of_environment(environment).rank > 0) return 0;  // only rank 0 makes the index
  if (settings.out.empty()) throw UsageError("--out DIR is missing: where shall the manifest go?");
  if (settings.fields.empty()) throw UsageError("--field NAME=/PATH/IN/FILE is missing: what is a sample?");
  if (std::filesystem::exists(std::filesystem::path(settings.out) / kDatasetManifest)) {
    throw UsageError(settings.out + " holds a dataset already");
  }
  std::vector<IndexField> fields;
  for (const std::string& text : settings.fields) fields.push_back(parse_index_field(text));
  Hdf5Table table = index_files({arguments.begin(), arguments.end()}, fields, settings.out, settings.split);
  if (settings.unwritten == "fail") check_written(table);
  for (const std::string& name : settings.class_fields) table = with_classes(table, name);
  make_folders(settings.out);
  write_hdf5_manifest(table);
  print_index(table);
  return 0;
}

int info_index(const std::filesystem::path& folder) {
  const Hdf5Table table = read_hdf5_manifest(folder);
  print_index(table);
  std::cout << "split: " << table.split() << "\nfiles:\n";
  for (std::size_t i = 0; i < table.files().size(); ++i) {
    std::cout << "  " << table.path(i).string() << "  " << table.files()[i].num_samples << " samples  "
              << table.files()[i].bytes << " bytes\n";
  }
  return 0;
}

int verify_index(const std::filesystem::path& folder, int threads) {
  const auto opened = std::make_shared<const Hdf5Table>(open_index(folder));
  const Hdf5Table& table = *opened;
  OpenFiles files(opened, {}, std::make_shared<IoCounters>());
  const std::vector<Block> blocks = blocks_of(table);
  std::vector<std::string> errors(blocks.size());
  run_tasks(blocks.size(), threads, [&](std::size_t i) {
    try {
      verify_block(files, table, blocks[i]);
    } catch (const DataError& error) {
      errors[i] = error.what();
    }
  });
  std::erase(errors, "");
  for (const std::string& error : errors) std::cout << "DAMAGED " << error << "\n";
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.files().size()
            << " files: " << (errors.empty() ? "all can be read" : std::to_string(errors.size()) + " chunks damaged")
            << "\n";
  return errors.empty() ? 0 : 1;
}

}  // namespace mn::data
