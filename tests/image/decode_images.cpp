// decode_images FILE…: writes each image to FILE.rgb: its width and height as int32, then R, G and B of each pixel; or
// the error to FILE.error.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/image/image_decoder.hpp>

int main(int argc, char** argv) {
  for (const std::filesystem::path path : std::span(argv + 1, argv + argc)) {
    const std::string bytes = mn::read_file(path);
    try {
      const mn::data::Image image = mn::data::decode_image(std::as_bytes(std::span(bytes)));
      const std::int32_t sides[] = {image.width, image.height};
      mn::write_file(path.string() + ".rgb", std::string(reinterpret_cast<const char*>(sides), sizeof sides) +
                                                 std::string(image.pixels.begin(), image.pixels.end()));
    } catch (const mn::DataError& error) {
      mn::write_file(path.string() + ".error", error.what());
    }
  }
  return 0;
}
