/// Reads a file from beginning to end. A file in gzip format is unpacked.
#pragma once

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <zlib.h>

#include <mn/core/error.hpp>

namespace mn::data {

class GzipFile {
 public:
  /// Throws DataError if the file can't be opened.
  explicit GzipFile(const std::filesystem::path& path)
      : path_(path.string()), file_(gzopen(path.c_str(), "rbe"), gzclose) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) throw DataError("cannot read " + path_ + ": it is a folder");
    if (!file_) throw DataError(with_errno("cannot open " + path_, errno));
  }

  /// Fills `out` with the next bytes and returns their number. It is less than out.size() only at the end of the file.
  /// Throws DataError if the file can't be read or is damaged.
  std::size_t read(std::span<std::byte> out) {
    const int n = gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
    int code = Z_OK;
    const std::string reason = gzerror(file_.get(), &code);  // also sets `code` if the stream ends too early
    if (n >= 0 && code == Z_OK) return static_cast<std::size_t>(n);
    throw DataError(path_ + " is damaged or truncated (" + (code == Z_ERRNO ? with_errno("read", errno) : reason) +
                    "): fetch it again");
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace mn::data
