// Images and texts of a training: PNG files of tensors, grids, and the files beside the reports.
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/image/image_decoder.hpp>
#include <mn/loader/write_png.hpp>
#include <mn/trainer/extensions/samples.hpp>

#include "tests/train/reports.hpp"

namespace mn::toy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Width, height and RGB values of a PNG file's bytes.
std::vector<int> decoded(const std::string& png) {
  const data::Image image = data::decode_image(std::as_bytes(std::span(png)));
  std::vector<int> values = {image.width, image.height};
  values.insert(values.end(), image.pixels.begin(), image.pixels.end());
  return values;
}

TEST(WritePngTest, WritesBytesAndFloats) {
  const at::Tensor bytes = at::arange(6, at::kByte).reshape({3, 1, 2});  // red 0 1, green 2 3, blue 4 5
  EXPECT_THAT(decoded(encode_png(bytes)), ElementsAre(2, 1, 0, 2, 4, 1, 3, 5));
  const at::Tensor gray = at::tensor({-1.0, 0.5, 2.0, std::numeric_limits<double>::quiet_NaN()}).reshape({2, 2});
  EXPECT_THAT(decoded(encode_png(gray)), ElementsAre(2, 2, 0, 0, 0, 128, 128, 128, 255, 255, 255, 0, 0, 0));
  const at::Tensor strided = at::ones({4, 5, 3}, at::kFloat).permute({2, 0, 1});
  EXPECT_EQ(decoded(encode_png(strided)).size(), 2U + 60U);
  for (const at::Tensor& wrong : {at::zeros({2, 4, 4}), at::zeros({1, 3, 4, 4}), at::zeros({4, 4}, at::kLong),
                                  at::zeros({3, 0, 4}), at::zeros({})}) {
    EXPECT_THROW(static_cast<void>(encode_png(wrong)), ArgumentError);
  }
}

TEST(WritePngTest, WritesAFile) {
  const TestFolder folder(world());
  const auto path = folder.path() / ("rank" + std::to_string(world()->rank()) + ".png");
  write_png(at::full({1, 2, 3}, 7, at::kByte), path);
  EXPECT_EQ(decoded(read_file(path)).at(2), 7);
  EXPECT_THROW(write_png(at::zeros({2, 2}), "/proc/absent/x.png"), DataError);
}

TEST(ImageGridTest, PadsAndFillsRows) {
  const at::Tensor images = at::arange(1, 4, at::kByte).reshape({3, 1, 1, 1});
  const at::Tensor grid = image_grid(images, 2, 1);
  EXPECT_TRUE(grid.equal(at::tensor({0, 0, 0, 0, 0,  //
                                     0, 1, 0, 2, 0,  //
                                     0, 0, 0, 0, 0,  //
                                     0, 3, 0, 0, 0,  //
                                     0, 0, 0, 0, 0},
                                    at::kByte)
                             .reshape({1, 5, 5})))
      << grid;
  EXPECT_EQ(image_grid(at::zeros({3, 3, 8, 8}), 8).sizes(), at::IntArrayRef({3, 12, 32})) << "no empty columns";
  EXPECT_THROW(static_cast<void>(image_grid(at::zeros({3, 8, 8}))), ArgumentError);
  EXPECT_THROW(static_cast<void>(image_grid(images, 0)), ArgumentError);
}

class SamplesTest : public ReportsTest {};

TEST_F(SamplesTest, AreFilesOfRank0NamedByIteration) {
  const auto made = job(6);
  made->trainer->extend(std::make_unique<extensions::Samples>([](extensions::Samples& samples) {
                          samples.image("digits", at::ones({2, 2}));
                          samples.text("poem", "roses\n");
                        }),
                        {.trigger = Interval(3, "iteration")});
  EXPECT_EQ(made->trainer->run(), 0);
  for (const char* file : {"images/digits-00000003.png", "images/digits-00000006.png", "texts/poem-00000006.txt"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / file)) << file;
  }
  EXPECT_EQ(read_file(folder_.path() / "texts/poem-00000003.txt"), "roses\n");
}

TEST_F(SamplesTest, RejectATagThatIsNoFileName) {
  const auto made = job(3);
  made->trainer->extend(
      std::make_unique<extensions::Samples>([](extensions::Samples& samples) { samples.text("../x", ""); }),
      {.trigger = kEach});
  EXPECT_THAT([&] { static_cast<void>(made->trainer->run()); }, ThrowsMessage<ArgumentError>(HasSubstr("../x")));
}

}  // namespace
}  // namespace mn::toy
