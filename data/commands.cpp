#include "data/commands.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_dataset.hpp>

#include "data/convert.hpp"
#include "data/convert_images.hpp"
#include "data/inspect.hpp"

namespace mn::data {
namespace {

/// A bar on standard error, where that is a terminal.
void show_progress(std::int64_t done, std::int64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr std::int64_t kWidth = 40;
  const auto filled = static_cast<int>(total == 0 ? kWidth : done * kWidth / total);
  std::fprintf(stderr, "\r[%-40s] %lld/%lld%s", std::string(filled, '#').c_str(), static_cast<long long>(done),
               static_cast<long long>(total), done == total ? "\n" : "");
}

void need_out(const Settings& settings) {
  if (settings.out.empty()) throw UsageError("--out DIR is missing: where shall the shards go?");
}

void print_summary(const ShardTable& table) {
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.shards().size()
            << (table.shards().size() == 1 ? " shard, " : " shards, ") << table.total_bytes() << " bytes\n";
}

ShardTable table_of(const std::string& name) { return read_manifest(find_dataset(name)); }

}  // namespace

int run_idx(Arguments arguments, const Settings& settings) {
  need_out(settings);
  const ConvertOptions options{.out = settings.out, .split = settings.split, .shard_bytes = settings.shard_mb << 20};
  if (arguments.size() == 2) {
    print_summary(convert_idx(arguments[0], arguments[1], options));
    return 0;
  }
  for (const ShardTable& table : convert_idx_folder(arguments[0], options)) print_summary(table);
  return 0;
}

int run_images(Arguments arguments, const Settings& settings) {
  need_out(settings);
  ImageConvertOptions options{
      .output = {.out = settings.out, .split = settings.split, .shard_bytes = settings.shard_mb << 20},
      .classes = settings.classes,
      .threads = static_cast<int>(settings.threads),
      .seed = static_cast<std::uint64_t>(settings.seed),
      .shuffle = settings.shuffle,
      .skip_bad = settings.on_error == "skip",
      .check_headers_only = settings.check == "header",
      .progress = show_progress,
      .warn = [](const std::string& warning) { std::cerr << "mnshard: warning: " << warning << "\n"; }};
  const ImageConversion result = convert_images(arguments[0], options);
  for (const std::string& error : result.errors) std::cerr << "left out: " << error << "\n";
  if (result.kept_shards > 0) std::cout << result.kept_shards << " shards were there already\n";
  if (result.left_out > 0) std::cout << result.left_out << " files were left out\n";
  print_summary(result.table);
  return 0;
}

int run_cifar(Arguments arguments, const Settings& settings) {
  need_out(settings);
  const ConvertOptions options{.out = settings.out, .split = {}, .shard_bytes = settings.shard_mb << 20};
  for (const ShardTable& table : convert_cifar(arguments[0], options)) print_summary(table);
  return 0;
}

int run_info(Arguments arguments, const Settings&) {
  const ShardTable table = table_of(arguments[0]);
  const SampleSpec& spec = table.spec();
  print_summary(table);
  std::cout << "split: " << table.split() << "\nkind: ";
  if (spec.kind == SampleKind::kFixed) {
    std::cout << "fixed, " << name_of(spec.dtype) << " {";
    for (std::size_t i = 0; i < spec.shape.size(); ++i) std::cout << (i == 0 ? "" : ", ") << spec.shape[i];
    std::cout << "}\n";
  } else {
    std::cout << "encoded images\n";
  }
  std::cout << "classes: " << spec.num_classes << "\n";
  for (std::size_t i = 0; i < spec.class_names.size(); ++i)
    std::cout << "  " << i << " " << spec.class_names[i] << "\n";
  std::cout << "shards:\n";
  for (const ShardInfo& shard : table.shards()) {
    std::cout << "  " << shard.file << "  " << shard.num_samples << " samples  " << shard.bytes << " bytes  uuid "
              << to_string(shard.uuid) << "\n";
  }
  return 0;
}

int run_verify(Arguments arguments, const Settings& settings) {
  const ShardTable table = table_of(arguments[0]);
  const auto report = verify_dataset(table, static_cast<int>(settings.threads), show_progress);
  for (const Damage& damage : report.damage) {
    std::cout << "DAMAGED " << damage.file;
    if (damage.sample >= 0) std::cout << " sample " << damage.sample;
    std::cout << ": " << damage.what << "\n";
  }
  std::cout << table.folder() << ": " << report.samples << " samples, " << report.bytes << " bytes in " << report.shards
            << " shards: " << (report.damage.empty() ? "all good" : std::to_string(report.damage.size()) + " damaged")
            << "\n";
  return report.damage.empty() ? 0 : 1;
}

int run_extract(Arguments arguments, const Settings& settings) {
  const ShardTable table = table_of(arguments[0]);
  char* end = nullptr;
  const long long index = std::strtoll(arguments[1].c_str(), &end, 10);
  if (arguments[1].empty() || *end != '\0') throw UsageError("\"" + arguments[1] + "\" is not the number of a sample");
  const auto sample = extract_sample(table, index);
  const std::string_view bytes(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size());
  if (settings.out.empty()) {
    std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
    if (!std::cout) throw DataError("cannot write the sample to standard output");
  } else {
    write_file(settings.out, bytes);
  }
  std::cerr << "sample " << index << ": " << bytes.size() << " bytes, label " << sample.label
            << (sample.key.empty() ? "" : ", from " + sample.key) << "\n";
  return 0;
}

}  // namespace mn::data
