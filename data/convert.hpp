/// Converters: other formats → a folder of shards with a manifest. All processes of the job call a converter with
/// options.me, as run_conversion() says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/conversion.hpp"
#include "data/image_intake.hpp"

namespace mn::data {

/// A pair of IDX files, raw or gzip. Each process holds their content.
ConversionResult convert_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                             const ConvertOptions& options);

/// MNIST's four files in `folder`, train-images-idx3-ubyte[.gz], …, → options.out/train and options.out/val (t10k-…).
/// Throws DataError that names a missing file.
ConversionResult convert_idx_folder(const std::filesystem::path& folder, const ConvertOptions& options);

/// CIFAR-10 or CIFAR-100, binary version, in `folder` → options.out/train and options.out/val; samples {3, 32, 32}.
ConversionResult convert_cifar(const std::filesystem::path& folder, const ConvertOptions& options);

/// Two .npy files: samples {N, shape…} of a dtype that shards hold, and N integer labels. Any byte order, C or Fortran.
ConversionResult convert_npy(const std::filesystem::path& samples, const std::filesystem::path& labels,
                             const ConvertOptions& options);

/// Two arrays of an .npz file, as np.savez and np.savez_compressed write it.
ConversionResult convert_npz(const std::filesystem::path& file, const std::string& samples, const std::string& labels,
                             const ConvertOptions& options);

struct TokenOptions {
  std::string vocabulary = "bpe";       ///< characters, bytes
  std::int64_t vocabulary_size = 8192;  ///< tokens of a byte pair vocabulary
  std::string vocabulary_file;          ///< a vocabulary to use; empty: make one from the texts
  std::int64_t context = 256;           ///< tokens of a sample, besides the token that follows
  bool any_bytes = false;               ///< files need not begin as text in UTF-8
  double val_part = 0.1;                ///< part of each file's tokens, at its end, for validation
};

/// Text files, also of gzip, each a text → options.out/train, options.out/val (unless val_part is 0) and
/// options.out/vocabulary.json. Texts follow one another; with several texts, a token ends each text. Samples follow
/// each other without a gap: the last token of a sample is the first of the next. All processes read pieces of the
/// files, twice if a vocabulary is made; rank 0 holds the different words in memory.
ConversionResult convert_tokens(const std::vector<std::filesystem::path>& files, const TokenOptions& tokens,
                                const ConvertOptions& options);

struct ImageConvertOptions {
  ConvertOptions output;
  ImageOptions images = {};
  std::uint64_t seed = 0;  ///< seed of the shuffle that decides which images share a shard
  bool shuffle = true;
};

struct ImageConversion {
  ConversionResult conversion;
  std::int64_t left_out = 0;               ///< files in no shard, of all processes and earlier runs, if complete
  std::vector<std::string> errors;         ///< a line for each file that this call left out
  std::vector<std::string> empty_classes;  ///< classes without a sample, as files were left out

  /// The table of the dataset, if it is complete.
  [[nodiscard]] const ShardTable& table() const { return conversion.tables.at(0); }
};

/// `source` is a folder with one folder of images, perhaps in folders of their own, for each class (classes are
/// numbered by name), or a list file with lines "path label", paths relative to it. The files are listed once; whatever
/// resumes the conversion goes by that list. Processes share the work as run_conversion() says; labels, shards and
/// bytes depend on the files, the seed, the shard size and resizing alone. Throws as run_conversion(), and DataError:
/// no image to convert, an empty class, an unusable file.
ImageConversion convert_images(const std::filesystem::path& source, const ImageConvertOptions& options);

/// WebDataset: tar files, or a folder with tar files, with consecutive members NAME.jpg, .jpeg or .png and NAME.cls;
/// .cls holds the label as text, other members are ignored. Samples keep their order and NAME; no shard has samples of
/// two tar files. Throws as convert_images() does; names a damaged tar file.
ImageConversion convert_tar(const std::vector<std::string>& sources, const ImageConvertOptions& options);

}  // namespace mn::data
