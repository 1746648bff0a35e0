/// Writes datasets from a program's own data. (The command mnshard converts files of the usual formats.)
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
  std::string split = "train";  ///< the names of the shards begin with it
  /// Approximate bytes of the samples of a shard. The writer holds this much in memory.
  std::int64_t shard_bytes = std::int64_t{256} << 20;
};

/// Facts about an encoded image that a shard records for other programs; mn reads size and channels from the image.
struct EncodedInfo {
  std::string_view key = {};   ///< source of the image, for messages
  std::uint16_t height = 0;    ///< pixels
  std::uint16_t width = 0;     ///< pixels
  std::uint16_t channels = 0;  ///< number of channels, as encoded
};

/// Writes a dataset sample by sample. Writes a shard whenever enough samples were added, and the manifest at the end.
/// Only one thread of one process may write to a folder.
///
///     mn::ShardWriter writer("data/mine/train", {{{.name = "tokens", .kind = mn::FieldKind::kVariable,
///                                                  .dtype = mn::DType::kInt32},
///                                                 {.name = "score", .dtype = mn::DType::kFloat32}}});
///     for (…) writer.add({tokens, std::span(&score, 1)});
///     writer.finish();
class ShardWriter {
 public:
  /// Makes the folder. Throws UsageError if the folder already holds shards or a dataset, or if the spec or the split's
  /// name is not valid. Throws DataError if the folder can't be made.
  ShardWriter(std::filesystem::path folder, SampleSpec spec, ShardWriterOptions options = {});
  /// Without finish(), the folder may hold shards, but no manifest: these shards are no dataset.
  ~ShardWriter();
  /// Moves a writer. After the move, the source may only be destroyed or assigned to.
  ShardWriter(ShardWriter&&) noexcept;
  /// Replaces this writer; if its finish() was not called, its shards have no manifest.
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// Adds a sample. `fields` has the values of each field in C order and this machine's byte order. Throws an
  /// ArgumentError that names the field if dtype or length mismatch the spec, or if a value of a class field is not a
  /// class. Throws DataError if a shard can't be written.
  void add(std::span<const ConstBufferView> fields);
  /// The same as add(fields) for an initializer list.
  void add(std::initializer_list<ConstBufferView> fields) { add(std::span(fields.begin(), fields.size())); }
  /// Adds a sample of a labeled() spec: the bytes of an array or of an encoded image, and the class. Only shards of
  /// encoded images record `info`. Throws as add(fields) does, and ArgumentError if the label exceeds 2147483647.
  void add(std::span<const std::byte> sample, std::int64_t label, const EncodedInfo& info = {});
  /// Number of samples added.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Publishes the last shard and the manifest. Then the dataset is complete, and no more samples can be added. Throws
  /// DataError if there are no samples, or if shard or manifest can't be written.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn
