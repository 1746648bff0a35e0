// write_augment_cases OUT WIDTH HEIGHT OF_EACH CHAINS: mn's operations on images made by rule, for torchvision to
// repeat. Writes OUT/cases, one line a case:
//   operation NAME AMOUNT WIDTH HEIGHT
//   resize FILTER X Y PART_WIDTH PART_HEIGHT WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT
//   mixup SHARE WIDTH HEIGHT
//   cutmix SHARE X Y PART_WIDTH PART_HEIGHT WIDTH HEIGHT
//   erase X Y PART_WIDTH PART_HEIGHT WIDTH HEIGHT
// and OUT/in and OUT/out, the RGB bytes of the images before and after, one after another. Of the last three there are
// two images before and, after, planes of float32.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include <mn/image/resize.hpp>

#include "tests/image/augment_cases.hpp"

namespace {

using namespace mn::data;

class Files {
 public:
  explicit Files(const std::filesystem::path& folder)
      : cases_(folder / "cases"), in_(folder / "in", std::ios::binary), out_(folder / "out", std::ios::binary) {}

  void add(const std::string& line, const Image& in, const Image& out) {
    cases_ << line << '\n';
    write(in_, in);
    write(out_, out);
  }
  void add(const std::string& line, const FloatCase& one) {
    cases_ << line << '\n';
    write(in_, one.own);
    write(in_, one.partner);
    const std::vector<float> out = one.result();
    out_.write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size() * sizeof(float)));
  }
  bool close() {
    cases_.close();
    in_.close();
    out_.close();
    return cases_ && in_ && out_;
  }

 private:
  static void write(std::ofstream& file, const Image& image) {
    file.write(reinterpret_cast<const char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
  }

  std::ofstream cases_, in_, out_;
};

std::string exactly(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

std::string words(std::initializer_list<int> numbers) {
  std::string text;
  for (const int number : numbers) text += " " + std::to_string(number);
  return text;
}

void add_operations(Files& files, int width, int height, int of_each, int chains) {
  ImageOperator apply;
  for (const AugmentCase& one : augment_cases(width, height, of_each, chains)) {
    Image out = one.in;
    apply.apply(one.operation, out);
    files.add("operation " + std::string(name_of(one.operation.kind)) + " " + exactly(one.operation.amount) +
                  words({width, height}),
              one.in, out);
  }
}

void add_resizes(Files& files, int width, int height, int count) {
  Resizer resizer;
  for (const ResizeCase& one : resize_cases(width, height, count)) {
    Image out;
    resizer.resize(one.in, to_box(one.part), one.part, one.width, one.height, false, out, one.filter);
    const Region& part = one.part;
    const std::string line = (one.filter == Interpolation::kBicubic ? "resize bicubic" : "resize bilinear") +
                             words({part.x, part.y, part.width, part.height, width, height, one.width, one.height});
    files.add(line, one.in, out);
  }
}

void add_floats(Files& files, int size, int count) {
  for (const FloatCase& one : float_cases(size, count)) {
    const Region& part = one.erased.width > 0 ? one.erased : one.mix.pasted;
    const std::string box = words({part.x, part.y, part.width, part.height, size, size});
    if (one.erased.width > 0) {
      files.add("erase" + box, one);
    } else if (part.width > 0) {
      files.add("cutmix " + exactly(one.mix.share) + box, one);
    } else {
      files.add("mixup " + exactly(one.mix.share) + words({size, size}), one);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: write_augment_cases OUT WIDTH HEIGHT OF_EACH CHAINS\n");
    return 2;
  }
  const int width = std::atoi(argv[2]), height = std::atoi(argv[3]), of_each = std::atoi(argv[4]);
  Files files(argv[1]);
  add_operations(files, width, height, of_each, std::atoi(argv[5]));
  add_resizes(files, width, height, 4 * of_each);
  add_floats(files, width, 3 * of_each);
  if (files.close()) return 0;
  std::fprintf(stderr, "write_augment_cases: cannot write to %s\n", argv[1]);
  return 1;
}
