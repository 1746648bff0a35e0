/// Encoding of JPEGs by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <mn/image/image.hpp>

namespace mn::data {

/// Encodes images one after another: baseline, color at half the resolution (4:2:0). Equal pixels give equal bytes with
/// an equal version of libjpeg-turbo. Keeps its memory; one thread at a time.
class JpegWriter {
 public:
  JpegWriter();
  ~JpegWriter();
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  /// quality 1 … 100. The bytes are the writer's, until the next call. Throws DataError if libjpeg fails.
  std::span<const std::byte> encode(const Image& image, int quality);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn::data
