/// Converters: each makes shards and a manifest from files of another format. All processes of the job call the same
/// converter, each with its rank in options.me (see run_conversion()).
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

/// Converts MNIST's four files in `folder` (train-images-idx3-ubyte[.gz], …) to options.out/train and, for the t10k
/// files, options.out/val. If a file is missing, throws a DataError that names it.
ConversionResult convert_idx_folder(const std::filesystem::path& folder, const ConvertOptions& options);

/// Converts the binary version of CIFAR-10 or CIFAR-100 in `folder` to options.out/train and options.out/val, with
/// samples {3, 32, 32}.
ConversionResult convert_cifar(const std::filesystem::path& folder, const ConvertOptions& options);

/// Converts two .npy files: samples {N, shape…} of any dtype that shards can hold, and N integer labels. Arrays may
/// have any byte order, and C or Fortran order.
ConversionResult convert_npy(const std::filesystem::path& samples, const std::filesystem::path& labels,
                             const ConvertOptions& options);

/// Converts the arrays named `samples` and `labels` of an .npz file that np.savez or np.savez_compressed wrote.
ConversionResult convert_npz(const std::filesystem::path& file, const std::string& samples, const std::string& labels,
                             const ConvertOptions& options);

struct TokenOptions {
  std::string vocabulary = "bpe";       ///< "bpe" (byte pairs), "characters" or "bytes"
  std::int64_t vocabulary_size = 8192;  ///< number of tokens of a "bpe" vocabulary
  std::string vocabulary_file;          ///< vocabulary to use; empty: it is made from the texts
  std::int64_t context = 256;           ///< tokens of a sample, without the last target
  bool any_bytes = false;               ///< false: files must be UTF-8 text
  double val_part = 0.1;                ///< fraction of the documents that goes to options.out/val
  std::string field = "text";           ///< member of JSON objects and column of Parquet files with the document
  std::string chat = "none";            ///< template of the chats in JSON lines: "chatml", "llama3", "plain" or "none"
  bool pack = false;                    ///< samples consist of whole documents, if these are not longer
  bool mask_prompt = false;             ///< only answers of chats are to be predicted; needs `pack`

  /// True if the texts make the vocabulary.
  [[nodiscard]] bool makes_vocabulary() const { return vocabulary_file.empty() && vocabulary != "bytes"; }
};

/// Converts the files of find_sources() to options.out/train, options.out/val (unless val_part is 0) and
/// options.out/vocabulary.json. All documents make one stream of tokens; if there are several, an end-of-text token
/// ends each. The last token of a sample is also the first token of the next sample, so no token is missing. Each
/// process reads a part of the files, twice if a vocabulary is made. Rank 0 holds all words in memory. With fewer than
/// 1 / val_part files, the end of each text is for validation; else whole files are. Of files with many documents,
/// whole documents are for validation.
ConversionResult convert_tokens(const std::vector<std::string>& files, const TokenOptions& tokens,
                                const ConvertOptions& options);

struct ImageConvertOptions {
  ConvertOptions output;
  ImageOptions images = {};
  std::uint64_t seed = 0;  ///< seed of the shuffle of all images
  bool shuffle = true;
  WebMembers members = {};  ///< for convert_tar()
};

struct ImageConversion {
  ConversionResult conversion;
  std::int64_t left_out = 0;               ///< if complete: files that all processes and earlier runs left out
  std::vector<std::string> errors;         ///< a line for each file that this call left out
  std::vector<std::string> empty_classes;  ///< classes without a sample, because files were left out
  std::string warning;                     ///< ImageProblems::warning() of the images that this call converted

  [[nodiscard]] const ShardTable& table() const { return conversion.tables.at(0); }
};

/// Converts image files. `source` is a folder or a list. A folder has a subfolder for each class, with images and
/// perhaps more subfolders; classes are numbered in the order of their names. A list is a file of paths and labels
/// (for_each_listed()); paths are relative to the list's folder. The files are listed once, and a run that resumes the
/// conversion uses the same list. Processes share the work as in run_conversion(). Labels and shards depend only on the
/// files, the options `seed` and `shuffle`, the shard size, and resizing. Throws the errors of run_conversion(), and
/// DataError if there is no image, a class is empty or a file is unusable.
ImageConversion convert_images(const std::filesystem::path& source, const ImageConvertOptions& options);

/// Converts a WebDataset: tar files, or a folder with tar files. A sample is consecutive members NAME.MEMBER;
/// options.members tells which of them are image and label, and others are ignored. Samples keep their order and their
/// NAME. No shard has samples of two tar files. Tar files packed by gzip or zstd are first unpacked into the output
/// folder. Throws the errors of convert_images(), and a DataError that names a damaged tar file.
ImageConversion convert_tar(const std::vector<std::string>& sources, const ImageConvertOptions& options);

}  // namespace mn::data
