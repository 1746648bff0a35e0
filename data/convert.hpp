/// Converters: each makes a folder of shards with a manifest from files of another format. All processes of the job
/// call the converter, each with its rank in options.me (see run_conversion()).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/conversion.hpp"
#include "data/image_intake.hpp"
#include "data/webdataset.hpp"

namespace mn::data {

/// Converts a pair of IDX files, raw or gzip. Each process holds the content of both files in memory.
ConversionResult convert_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                             const ConvertOptions& options);

/// Converts MNIST's four files in `folder` (train-images-idx3-ubyte[.gz], …) to options.out/train and options.out/val;
/// val has the t10k files. If a file is missing, throws a DataError that names it.
ConversionResult convert_idx_folder(const std::filesystem::path& folder, const ConvertOptions& options);

/// Converts CIFAR-10 or CIFAR-100, binary version, in `folder` to options.out/train and options.out/val. Samples are
/// {3, 32, 32}.
ConversionResult convert_cifar(const std::filesystem::path& folder, const ConvertOptions& options);

/// Converts two .npy files: samples {N, shape…} of a dtype that shards hold, and N integer labels. Arrays may have any
/// byte order, and C or Fortran order.
ConversionResult convert_npy(const std::filesystem::path& samples, const std::filesystem::path& labels,
                             const ConvertOptions& options);

/// Converts two arrays of an .npz file as np.savez or np.savez_compressed writes it: `samples` and `labels` are the
/// arrays' names.
ConversionResult convert_npz(const std::filesystem::path& file, const std::string& samples, const std::string& labels,
                             const ConvertOptions& options);

struct TokenOptions {
  std::string vocabulary = "bpe";       ///< "bpe" (byte pairs), "characters" or "bytes"
  std::int64_t vocabulary_size = 8192;  ///< number of tokens of a "bpe" vocabulary
  std::string vocabulary_file;          ///< file of the vocabulary to use; empty: a vocabulary is made from the texts
  std::int64_t context = 256;           ///< tokens of a sample, without the one token that follows them
  bool any_bytes = false;               ///< files with any bytes; false: files must be UTF-8 text
  double val_part = 0.1;  ///< part of each file's tokens, at the end of the file, that goes into options.out/val
};

/// Converts text files, raw or gzip, to options.out/train, options.out/val (unless val_part is 0) and
/// options.out/vocabulary.json. Each file is a text. All texts make one stream of tokens; if there are several texts,
/// an end-of-text token ends each text. Samples have no gap in the stream: the last token of a sample is also the first
/// token of the next sample. The processes share the reading of the files, which are read twice if a vocabulary is
/// made. Rank 0 holds the different words in memory.
ConversionResult convert_tokens(const std::vector<std::filesystem::path>& files, const TokenOptions& tokens,
                                const ConvertOptions& options);

struct ImageConvertOptions {
  ConvertOptions output;
  ImageOptions images = {};
  std::uint64_t seed = 0;  ///< seed of the shuffle of all images
  bool shuffle = true;
  WebMembers members = {};  ///< of convert_tar()
};

struct ImageConversion {
  ConversionResult conversion;
  std::int64_t left_out = 0;        ///< if complete: number of files in no shard, of all processes and earlier runs
  std::vector<std::string> errors;  ///< a line for each file that this call left out
  std::vector<std::string> empty_classes;  ///< classes without a sample, because files were left out
  std::string warning;                     ///< of DeepImages, for images that this call converted

  /// The table of the dataset, if it is complete.
  [[nodiscard]] const ShardTable& table() const { return conversion.tables.at(0); }
};

/// Converts image files. `source` is a folder with a subfolder for each class, which holds images and perhaps further
/// subfolders; classes are numbered in the order of their names. Or `source` is a list (for_each_listed()), where paths
/// are relative to the list's folder. The files are listed once, and a run that resumes the conversion
/// uses the same list. Processes share the work as in run_conversion(). Labels, shards and bytes depend on the files,
/// the seed, the shard size and resizing alone. Throws the errors of run_conversion(). Throws DataError if there is no
/// image to convert, a class is empty or a file is unusable.
ImageConversion convert_images(const std::filesystem::path& source, const ImageConvertOptions& options);

/// Converts a WebDataset: tar files, or a folder with tar files. A sample is consecutive members NAME.MEMBER, of which
/// options.members names image and label; other members are ignored. Samples keep their order and NAME. No shard has
/// samples of two tar files. A file that gzip or zstd has packed is first unpacked into the output folder. Throws the
/// errors of convert_images(), and a DataError that names a damaged tar file.
ImageConversion convert_tar(const std::vector<std::string>& sources, const ImageConvertOptions& options);

}  // namespace mn::data
