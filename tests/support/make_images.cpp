// make_images OUT [options]: a data set of images made by rule, as ImageNet lies on disk:
// OUT/{train,val}/CLASS/CLASS_N.JPEG. The same options give the same bytes.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/options.hpp>

#include "tests/support/image_kinds.hpp"
#include "tests/support/textured_image.hpp"

namespace mn::test {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxPixelsASide = 10000;

struct Settings {
  fs::path out;
  std::int64_t classes = 10;
  std::int64_t train = 50;
  std::int64_t val = 10;
  std::string sizes = "64x64";
  std::string kinds = "baseline";
  std::int64_t seed = 0;
};

struct Size {
  int width;
  int height;
};

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Size parse_size(const std::string& text) {
  Size size = {};
  const char* end = text.data() + text.size();
  const auto [cross, wrong_width] = std::from_chars(text.data(), end, size.width);
  const bool has_height = wrong_width == std::errc() && cross != end && *cross == 'x';
  const auto [stop, wrong_height] = std::from_chars(has_height ? cross + 1 : end, end, size.height);
  const auto possible = [](int side) { return side >= 1 && side <= kMaxPixelsASide; };
  if (wrong_height != std::errc() || stop != end || !possible(size.width) || !possible(size.height)) {
    throw UsageError("--size: \"" + text + "\" is not WIDTHxHEIGHT, with 1 to " + std::to_string(kMaxPixelsASide) +
                     " pixels a side");
  }
  return size;
}

void write(const fs::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error("cannot write " + path.string() + ": is there room, and may you write there?");
}

std::string class_name(std::int64_t label) {
  char name[32];
  std::snprintf(name, sizeof name, "c%04lld", static_cast<long long>(label));
  return name;
}

/// Sizes take turns from image to image, kinds whenever all sizes had theirs, so that all pairs of them occur.
void make_split(const Settings& settings, const std::string& split, std::int64_t per_class, std::uint64_t seed) {
  std::vector<Size> sizes;
  for (const std::string& size : split_list(settings.sizes)) sizes.push_back(parse_size(size));
  std::vector<const ImageKind*> kinds;
  for (const std::string& kind : split_list(settings.kinds)) kinds.push_back(&find_image_kind(kind));
  for (std::int64_t label = 0; label < settings.classes; ++label) {
    const std::string name = class_name(label);
    const fs::path folder = settings.out / split / name;
    if (per_class > 0) fs::create_directories(folder);
    for (std::int64_t i = 0; i < per_class; ++i) {
      const auto [width, height] = sizes[i % sizes.size()];
      const std::int64_t turn = i / static_cast<std::int64_t>(sizes.size());
      const ImageKind& kind = *kinds[turn % kinds.size()];
      const auto image = draw_textured_image({static_cast<int>(label), seed, i}, width, height);
      const std::string file = name + "_" + std::to_string(i) + std::string(kind.extension);
      write(folder / file, kind.encode(image, turn / static_cast<std::int64_t>(kinds.size())));
    }
  }
}

Options options_for(Settings& settings) {
  std::string kinds;
  for (const ImageKind& kind : image_kinds()) kinds.append(kinds.empty() ? "" : ", ").append(kind.name);
  Options options("make_images OUT [options]: images made by rule → OUT/{train,val}/CLASS/*");
  options.add("classes", settings.classes, "classes", 1, 10000);
  options.add("per-class", settings.train, "training images of each class", 0, 1000000);
  options.add("val-per-class", settings.val, "validation images of each class", 0, 1000000);
  options.add("size", settings.sizes, "WxH,…", "pixels; several take turns");
  options.add("kinds", settings.kinds, "KIND,…", "several take turns: " + kinds);
  options.add("seed", settings.seed, "of everything that is random", 0);
  return options;
}

int make_images(int argc, char** argv) {
  Settings settings;
  auto options = options_for(settings);
  const bool has_out = argc > 1 && std::string_view(argv[1]).substr(0, 1) != "-";
  std::vector<const char*> rest(argv, argv + argc);
  if (has_out) rest.erase(rest.begin() + 1);
  if (options.parse(static_cast<int>(rest.size()), rest.data()) == Options::Action::kHelp) {
    std::fputs(options.help().c_str(), stdout);
    return 0;
  }
  if (!has_out) throw UsageError("where to? make_images OUT [options]");
  settings.out = argv[1];
  const auto seed = static_cast<std::uint64_t>(settings.seed);
  make_split(settings, "train", settings.train, 2 * seed);
  make_split(settings, "val", settings.val, 2 * seed + 1);
  return 0;
}

}  // namespace
}  // namespace mn::test

int main(int argc, char** argv) {
  try {
    return mn::test::make_images(argc, argv);
  } catch (const mn::UsageError& error) {
    std::fprintf(stderr, "make_images: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_images: %s\n", error.what());
    return 1;
  }
}
