// write_augment_cases OUT WIDTH HEIGHT OF_EACH CHAINS: mn's operations on images made by rule, for torchvision to
// repeat. Writes OUT/cases, one line a case:
//   operation NAME AMOUNT WIDTH HEIGHT
//   resize FILTER X Y PART_WIDTH PART_HEIGHT WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT
// and OUT/in and OUT/out, the RGB bytes of the images before and after, one after another.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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

void add_operations(Files& files, int width, int height, int of_each, int chains) {
  ImageOperator apply;
  for (const AugmentCase& one : augment_cases(width, height, of_each, chains)) {
    Image out = one.in;
    apply.apply(one.operation, out);
    char amount[40];
    std::snprintf(amount, sizeof amount, "%.17g", one.operation.amount);
    files.add("operation " + std::string(name_of(one.operation.kind)) + " " + amount + " " + std::to_string(width) +
                  " " + std::to_string(height),
              one.in, out);
  }
}

void add_resizes(Files& files, int width, int height, int count) {
  Resizer resizer;
  for (const ResizeCase& one : resize_cases(width, height, count)) {
    Image out;
    resizer.resize(one.in, to_box(one.part), one.part, one.width, one.height, false, out, one.filter);
    std::string line = one.filter == Interpolation::kBicubic ? "resize bicubic" : "resize bilinear";
    for (const int number :
         {one.part.x, one.part.y, one.part.width, one.part.height, width, height, one.width, one.height}) {
      line += " " + std::to_string(number);
    }
    files.add(line, one.in, out);
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
  if (files.close()) return 0;
  std::fprintf(stderr, "write_augment_cases: cannot write to %s\n", argv[1]);
  return 1;
}
