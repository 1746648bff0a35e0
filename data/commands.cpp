#include "data/commands.hpp"

#include <cstdio>
#include <iostream>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/extract.hpp"
#include "data/index_files.hpp"
#include "data/verify.hpp"

namespace mn::data {
namespace {

void show_progress(std::int64_t done, std::int64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr std::int64_t kWidth = 40;
  const auto filled = static_cast<int>(total == 0 ? kWidth : done * kWidth / total);
  std::fprintf(stderr, "\r[%-40s] %lld/%lld%s", std::string(filled, '#').c_str(), static_cast<long long>(done),
               static_cast<long long>(total), done == total ? "\n" : "");
}

/// The options of a converter on this rank. Only rank 0 shows progress. Throws UsageError if --out is missing.
ConvertOptions options_of(const Settings& settings) {
  if (settings.out.empty()) throw UsageError("--out DIR is missing: where shall the shards go?");
  const JobRank me = job_rank_of_environment(environment);
  return {.out = settings.out,
          .split = settings.split,
          .shard_bytes = settings.shard_mb << 20,
          .threads = static_cast<int>(settings.threads),
          .me = me,
          .progress = me.rank == 0 ? show_progress : nullptr};
}

ImageConvertOptions image_options_of(const Settings& settings) {
  return {.output = options_of(settings),
          .images = {.skip_bad = settings.on_error == "skip",
                     .check_headers_only = settings.check == "header",
                     .resize = static_cast<int>(settings.resize),
                     .classes = settings.classes,
                     .columns = settings.columns,
                     .warn = [](const std::string& text) { std::cerr << "mnshard: warning: " + text + "\n"; }},
          .seed = static_cast<std::uint64_t>(settings.seed),
          .shuffle = settings.shuffle,
          .members = WebMembers::parse(settings.image_member, settings.label_member)};
}

void print_summary(const StoredTable& table, const std::string& file) {
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.num_files() << " " << file
            << (table.num_files() == 1 ? ", " : "s, ") << table.total_bytes() << " bytes\n";
}

/// Prints the result of a conversion. The rank that finishes last has the tables of all datasets, and prints them. If
/// rank 0 is not last, it prints that its shards are finished. Other ranks print nothing.
int print_result(const ConversionResult& result) {
  if (result.tables.empty()) {
    const JobRank me = job_rank_of_environment(environment);
    if (me.rank > 0) return 0;
    std::cout << "rank 0 of " << me.size << " has finished its " << result.shards
              << (result.shards == 1 ? " shard" : " shards") << "; the last rank to finish writes the manifest\n";
    return 0;
  }
  if (result.kept_shards > 0) std::cout << result.kept_shards << " shards were there already\n";
  for (const ShardTable& table : result.tables) print_summary(table, "shard");
  return 0;
}

int print_result(const ImageConversion& result) {
  for (const std::string& error : result.errors) std::cerr << "left out: " << error << "\n";
  if (!result.warning.empty()) std::cerr << "mnshard: warning: " + result.warning + "\n";
  if (result.left_out > 0) std::cout << result.left_out << " files were left out\n";
  if (const auto& empty = result.empty_classes; !empty.empty()) {
    std::cerr << "mnshard: warning: no sample is left of " << empty.size() << " of the "
              << result.table().spec().num_classes() << " classes, the first of which is " << empty.front() << "\n";
  }
  return print_result(result.conversion);
}

std::string array_text(const FieldSpec& field) {
  std::string text = std::string(name_of(field.dtype)) + " {" + (field.kind == FieldKind::kVariable ? "any" : "");
  for (const std::int64_t extent : field.shape) {
    text += (text.back() == '{' ? "" : ", ") + std::to_string(extent);
  }
  return text + "}";
}

void print_names(const FieldSpec& field) {
  for (std::size_t i = 0; i < field.class_names.size(); ++i) {
    std::cout << "  " << i << " " << field.class_names[i] << "\n";
  }
}

void print_fields(const ShardTable& table) {
  std::cout << "read in blocks of " << table.block_samples() << "\nfields:\n";
  for (const FieldSpec& field : table.spec().fields) {
    std::cout << "  " << field.name << ": " << (field.kind == FieldKind::kEncoded ? "encoded" : array_text(field));
    if (field.num_classes > 0) std::cout << ", " << field.num_classes << " classes";
    std::cout << "\n";
    print_names(field);
  }
}

void print_index(const Hdf5Table& table) {
  print_summary(table, "file");
  for (std::size_t f = 0; f < table.spec().fields.size(); ++f) std::cout << "  " << cost_of(table, f) << "\n";
}

int run_idx(Arguments arguments, const Settings& settings) {
  const ConvertOptions options = options_of(settings);
  return print_result(arguments.size() == 2 ? convert_idx(arguments[0], arguments[1], options)
                                            : convert_idx_folder(arguments[0], options));
}

int run_cifar(Arguments arguments, const Settings& settings) {
  return print_result(convert_cifar(arguments[0], options_of(settings)));
}

int run_npy(Arguments arguments, const Settings& settings) {
  return print_result(convert_npy(arguments[0], arguments[1], options_of(settings)));
}

int run_npz(Arguments arguments, const Settings& settings) {
  return print_result(convert_npz(arguments[0], settings.x, settings.y, options_of(settings)));
}

int run_images(Arguments arguments, const Settings& settings) {
  return print_result(convert_images(arguments[0], image_options_of(settings)));
}

int run_tar(Arguments arguments, const Settings& settings) {
  return print_result(convert_tar({arguments.begin(), arguments.end()}, image_options_of(settings)));
}

int run_tokens(Arguments arguments, const Settings& settings) {
  TokenOptions tokens = settings.tokens;
  tokens.any_bytes = settings.encoding == "any";
  tokens.field = !settings.fields.empty() ? settings.fields.back() : tokens.chat == "none" ? "text" : "messages";
  return print_result(convert_tokens({arguments.begin(), arguments.end()}, tokens, options_of(settings)));
}

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

int run_info(Arguments arguments, const Settings&) {
  const auto folder = find_dataset(arguments[0]);
  if (has_hdf5_manifest(folder)) return info_index(folder);
  const ShardTable table = read_manifest(folder);
  print_summary(table, "shard");
  std::cout << "split: " << table.split() << "\n";
  print_fields(table);
  std::cout << "shards:\n";
  for (const ShardInfo& shard : table.shards()) {
    std::cout << "  " << shard.file << "  " << shard.num_samples << " samples  " << shard.bytes << " bytes  uuid "
              << to_string(shard.uuid) << "\n";
  }
  return 0;
}

int run_verify(Arguments arguments, const Settings& settings) {
  const auto folder = find_dataset(arguments[0]);
  const auto table = read_table(folder);
  const auto damage = verify_dataset(*table, static_cast<int>(settings.threads), show_progress);
  for (const std::string& text : damage) std::cout << "DAMAGED " << text << "\n";
  // HDF5 files that mn did not write need not have checksums.
  const char* good = has_hdf5_manifest(folder) ? "all can be read" : "all good";
  std::cout << table->folder() << ": " << table->num_samples() << " samples, " << table->total_bytes() << " bytes in "
            << table->num_files() << " files: " << (damage.empty() ? good : std::to_string(damage.size()) + " damaged")
            << "\n";
  return damage.empty() ? 0 : 1;
}

int run_extract(Arguments arguments, const Settings& settings) {
  const auto index = parse_number<std::int64_t>(arguments[1]);
  if (!index) throw UsageError("\"" + arguments[1] + "\" is not the number of a sample");
  const auto table = read_table(find_dataset(arguments[0]));
  const std::size_t field =
      settings.fields.empty() ? 0 : field_position(table->spec(), settings.fields.back(), "--field");
  const auto sample = extract_sample(*table, *index, field);
  write_sample(sample.bytes, settings.out);
  std::cerr << "sample " << *index << ": " << sample.bytes.size() << " bytes"
            << (sample.label < 0 ? " of " + table->spec()[field].name : ", label " + std::to_string(sample.label))
            << (sample.key.empty() ? "" : ", from " + sample.key) << "\n";
  return 0;
}

constexpr std::size_t kAny = 1 << 20;  // no limit for the number of arguments

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> kCommands = {
      Command("idx", 1, 2, run_idx,
              {{"DIR --out OUT", "MNIST's four files in DIR → OUT/train, OUT/val"},
               {"IMAGES LABELS --out OUT", "a pair of IDX files, raw or gzip → OUT"}}),
      Command("images", 1, 1, run_images,
              {{"SOURCE --out OUT",
                "images of many formats, one folder for each class, or a list or CSV of paths and labels → OUT"}}),
      Command("tar", 1, kAny, run_tar,
              {{"FILES --out OUT", "WebDataset: tar files, also packed, or folders of them → OUT"}}),
      Command("npy", 2, 2, run_npy, {{"X.npy LABELS.npy --out OUT", "arrays of numpy: samples and labels → OUT"}}),
      Command("npz", 1, 1, run_npz, {{"FILE.npz --out OUT", "two arrays of a file of numpy's → OUT"}}),
      Command("cifar", 1, 1, run_cifar, {{"DIR --out OUT", "CIFAR-10 or -100, binary version → OUT/train, OUT/val"}}),
      Command("tokens", 1, kAny, run_tokens,
              {{"FILES --out OUT", "texts, .jsonl, .parquet or tokens, for language models → OUT/train, OUT/val"}}),
      Command("index", 1, kAny, run_index,
              {{"FILES --field NAME=/PATH … --out OUT", "HDF5 files that stay unchanged → a manifest in OUT"}}),
      Command("info", 1, 1, run_info, {{"DIR", "describe a dataset"}}),
      Command("verify", 1, 1, run_verify, {{"DIR", "read the whole dataset and compare checksums"}}),
      Command("extract", 2, 2, run_extract,
              {{"DIR N [--out FILE]", "write a field of sample N, as stored, to FILE or standard output"}}),
  };
  return kCommands;
}

}  // namespace mn::data
