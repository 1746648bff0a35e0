// mnshard: makes, describes and checks shards.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

#include <mn/core/cpus.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/options.hpp>
#include <mn/data/hdf5.hpp>
#include <mn/data/shard_dataset.hpp>

#include "data/convert.hpp"
#include "data/convert_images.hpp"
#include "data/inspect.hpp"

namespace mn::data {
namespace {

constexpr const char* kUsage =
    "mnshard COMMAND … [options]: data in shards (HDF5 files that any rank reads by itself)\n"
    "  mnshard idx DIR --out OUT             MNIST's four files in DIR → OUT/train, OUT/val\n"
    "  mnshard idx IMAGES LABELS --out OUT   a pair of IDX files, raw or gzip → OUT\n"
    "  mnshard images SOURCE --out OUT       JPEGs and PNGs, one folder for each class, or a file of lines "
    "\"path label\" → OUT\n"
    "  mnshard cifar DIR --out OUT           CIFAR-10 or -100, binary version → OUT/train, OUT/val\n"
    "  mnshard info DIR                      what a dataset holds\n"
    "  mnshard verify DIR                    read all of it and compare checksums\n"
    "  mnshard extract DIR N                 sample N as stored (to --out FILE, else to standard output)";

struct Settings {
  std::string out;
  std::string split = "train";
  std::int64_t shard_mb = 256;
  std::string classes;
  std::int64_t threads = std::min<std::int64_t>(std::ssize(usable_cpus()), 16);  // each holds a shard
  std::int64_t seed = 0;
  bool shuffle = true;
  std::string on_error = "fail";
  std::string check = "decode";
};

using Arguments = std::span<const std::string>;

Options options_for(Settings& settings) {
  Options options(kUsage);
  options.add("out", settings.out, "DIR", "where to write");
  options.add("split", settings.split, "NAME", "name of the split, where only one is made");
  options.add("shard-mb", settings.shard_mb, "MiB of samples in a shard", 1, 1 << 20);
  options.add("threads", settings.threads, "threads that read, check and write; each holds one shard in memory", 1,
              4096);
  options.add("classes", settings.classes, "FILE",
              "images, of a list: names of the classes, one a line, label 0 first");
  options.add("seed", settings.seed, "images: of the shuffle", 0);
  options.add_flag("shuffle", settings.shuffle, "images: pictures are shuffled once, over all shards");
  options.add("on-error", settings.on_error, "WHAT",
              "images: a file that is no good JPEG or PNG ends it, or is left out", {"fail", "skip"});
  options.add("check", settings.check, "HOW", "images: every picture is decoded once, or its header read",
              {"decode", "header"});
  return options;
}

/// Every option takes a value, so what follows one without "=" belongs to it; the rest are the arguments.
std::vector<std::string> take_arguments(int argc, char** argv, std::vector<const char*>& options) {
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2) != 0 && i > 0) {
      arguments.emplace_back(argv[i]);
      continue;
    }
    options.push_back(argv[i]);
    const bool bare = std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "--version") == 0;
    if (i > 0 && !bare && std::strchr(argv[i], '=') == nullptr && i + 1 < argc) options.push_back(argv[++i]);
  }
  return arguments;
}

/// A bar on standard error, where that is a terminal.
void show_progress(std::int64_t done, std::int64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr std::int64_t kWidth = 40;
  const auto filled = static_cast<int>(total == 0 ? kWidth : done * kWidth / total);
  std::fprintf(stderr, "\r[%-40s] %lld/%lld%s", std::string(filled, '#').c_str(), static_cast<long long>(done),
               static_cast<long long>(total), done == total ? "\n" : "");
}

void need(Arguments arguments, std::size_t least, std::size_t most, const std::string& form) {
  if (arguments.size() < least || arguments.size() > most) throw UsageError("usage: mnshard " + form);
}

void need_out(const Settings& settings) {
  if (settings.out.empty()) throw UsageError("--out DIR is missing: where shall the shards go?");
}

void print_summary(const data::ShardTable& table) {
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.shards().size()
            << (table.shards().size() == 1 ? " shard, " : " shards, ") << table.total_bytes() << " bytes\n";
}

int run_idx(Arguments arguments, const Settings& settings) {
  need(arguments, 1, 2, "idx DIR | IMAGES LABELS --out OUT");
  need_out(settings);
  const data::ConvertOptions options{
      .out = settings.out, .split = settings.split, .shard_bytes = settings.shard_mb << 20};
  if (arguments.size() == 2) {
    print_summary(data::convert_idx(arguments[0], arguments[1], options));
    return 0;
  }
  for (const data::ShardTable& table : data::convert_idx_folder(arguments[0], options)) print_summary(table);
  return 0;
}

int run_images(Arguments arguments, const Settings& settings) {
  need(arguments, 1, 1, "images SOURCE --out OUT");
  need_out(settings);
  data::ImageConvertOptions options{
      .output = {.out = settings.out, .split = settings.split, .shard_bytes = settings.shard_mb << 20},
      .classes = settings.classes,
      .threads = static_cast<int>(settings.threads),
      .seed = static_cast<std::uint64_t>(settings.seed),
      .shuffle = settings.shuffle,
      .skip_bad = settings.on_error == "skip",
      .check_headers_only = settings.check == "header",
      .progress = show_progress,
      .warn = [](const std::string& warning) { std::cerr << "mnshard: warning: " << warning << "\n"; }};
  const data::ImageConversion result = data::convert_images(arguments[0], options);
  for (const std::string& error : result.errors) std::cerr << "left out: " << error << "\n";
  if (result.kept_shards > 0) std::cout << result.kept_shards << " shards were there already\n";
  if (result.left_out > 0) std::cout << result.left_out << " files were left out\n";
  print_summary(result.table);
  return 0;
}

int run_cifar(Arguments arguments, const Settings& settings) {
  need(arguments, 1, 1, "cifar DIR --out OUT");
  need_out(settings);
  const data::ConvertOptions options{.out = settings.out, .split = {}, .shard_bytes = settings.shard_mb << 20};
  for (const data::ShardTable& table : data::convert_cifar(arguments[0], options)) print_summary(table);
  return 0;
}

data::ShardTable table_of(const std::string& name) { return data::read_manifest(data::find_dataset(name)); }

int run_info(Arguments arguments, const Settings&) {
  need(arguments, 1, 1, "info DIR");
  const data::ShardTable table = table_of(arguments[0]);
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
  for (const data::ShardInfo& shard : table.shards()) {
    std::cout << "  " << shard.file << "  " << shard.num_samples << " samples  " << shard.bytes << " bytes  uuid "
              << data::to_string(shard.uuid) << "\n";
  }
  return 0;
}

int run_verify(Arguments arguments, const Settings& settings) {
  need(arguments, 1, 1, "verify DIR");
  const data::ShardTable table = table_of(arguments[0]);
  const auto report = data::verify_dataset(table, static_cast<int>(settings.threads), show_progress);
  for (const data::Damage& damage : report.damage) {
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
  need(arguments, 2, 2, "extract DIR N [--out FILE]");
  const data::ShardTable table = table_of(arguments[0]);
  char* end = nullptr;
  const long long index = std::strtoll(arguments[1].c_str(), &end, 10);
  if (arguments[1].empty() || *end != '\0') throw UsageError("\"" + arguments[1] + "\" is not the number of a sample");
  const auto sample = data::extract_sample(table, index);
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

struct Command {
  const char* name;
  int (*run)(Arguments, const Settings&);
};
constexpr Command kCommands[] = {{"idx", run_idx},   {"images", run_images}, {"cifar", run_cifar},
                                 {"info", run_info}, {"verify", run_verify}, {"extract", run_extract}};

const Command& command_named(const std::string& name) {
  std::string known;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    known += std::string(known.empty() ? "" : ", ") + command.name;
  }
  throw UsageError("unknown command \"" + name + "\": mnshard knows " + known);
}

void print_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  std::cout << "mnshard " MN_VERSION ", shard format " << data::kShardVersion << ", HDF5 " << major << '.' << minor
            << '.' << release << " (compiled with " << H5_VERS_MAJOR << '.' << H5_VERS_MINOR << '.' << H5_VERS_RELEASE
            << ")\n";
}

int run(int argc, char** argv) {
  Settings settings;
  Options options = options_for(settings);
  std::vector<const char*> given;
  const auto arguments = take_arguments(argc, argv, given);
  const auto action = options.parse(static_cast<int>(given.size()), given.data());
  if (action == Options::Action::kVersion) return print_version(), 0;
  if (action == Options::Action::kHelp) return std::cout << options.help(), 0;
  if (arguments.empty()) throw UsageError("a command is missing; see mnshard --help");
  return command_named(arguments[0]).run(Arguments(arguments).subspan(1), settings);
}

}  // namespace
}  // namespace mn::data

int main(int argc, char** argv) {
  try {
    return mn::data::run(argc, argv);
  } catch (const mn::Error& error) {
    std::cerr << "mnshard: " << error.what() << "\n";
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << "mnshard: " << error.what() << "\n";
    return 1;
  }
}
