/// Writing of datasets from a program's own data; mnshard converts files of the usual formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <mn/core/buffer.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn {

/// How a ShardWriter divides its samples.
struct ShardWriterOptions {
  std::string split = "train";                         ///< begins the names of the shards
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< size of a shard's samples, about; a whole shard is in memory
};

/// Facts about an encoded image for other programs; mn reads them from the image itself.
struct EncodedInfo {
  std::string_view key = {};   ///< source of the image, for messages
  std::uint16_t height = 0;    ///< pixels
  std::uint16_t width = 0;     ///< pixels
  std::uint16_t channels = 0;  ///< as encoded
};

/// Writes a dataset, sample by sample: a shard whenever enough samples have come, the manifest at the end. One process
/// and one thread write a folder.
///
///     mn::ShardWriter writer("data/mine/train", {{{.name = "tokens", .kind = mn::FieldKind::kVariable,
///                                                  .dtype = mn::DType::kInt32},
///                                                 {.name = "score", .dtype = mn::DType::kFloat32}}});
///     for (…) writer.add({tokens, std::span(&score, 1)});
///     writer.finish();
class ShardWriter {
 public:
  /// Throws UsageError if the folder holds shards or a dataset already, or if the spec or the split's name can't be;
  /// DataError if the folder can't be made.
  ShardWriter(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options = {});
  /// Without finish() the folder may hold shards, but no manifest, so no dataset.
  ~ShardWriter();
  /// Only destroy or assign to a writer that was moved from.
  ShardWriter(ShardWriter&&) noexcept;
  /// The samples of the replaced writer stay without a manifest.
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// The values of each field, in C order and this machine's byte order. Throws ArgumentError that names the field if
  /// dtype or length mismatch the spec, or if a number is not a class; DataError if a shard can't be written.
  void add(std::span<const ConstBufferView> fields);
  /// add() for an initializer list.
  void add(std::initializer_list<ConstBufferView> fields) { add(std::span(fields.begin(), fields.size())); }
  /// To samples of a labeled() spec: the bytes of an array, or an encoded image, and the class. `info` is kept for
  /// images. Throws the errors of add(fields), and ArgumentError for a label above 2147483647.
  void add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info = {});
  /// Number of samples added.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Publishes the last shard and the manifest: the dataset is complete, and nothing more can be added. Throws
  /// DataError if they can't be written, or if there are no samples.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn
