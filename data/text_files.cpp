#include "data/text_files.hpp"

#include <cerrno>
#include <memory>
#include <string>

#include <zlib.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::data {

void read_texts(const std::vector<std::filesystem::path>& files, const std::function<void(std::string_view)>& use) {
  constexpr unsigned kPiece = 4U << 20;
  std::string piece;
  for (const std::filesystem::path& path : files) {
    if (!std::filesystem::is_regular_file(path)) throw DataError("there is no file " + path.string(), true);
    errno = 0;
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (!file) throw DataError(with_errno("cannot open " + path.string(), errno), true);
    while (true) {
      piece.resize(kPiece);
      const int read = gzread(file.get(), piece.data(), kPiece);
      int status = Z_OK;
      const char* what = gzerror(file.get(), &status);  // also of a file that is cut off
      if (read < 0 || (status != Z_OK && status != Z_STREAM_END)) {
        throw DataError("cannot read " + path.string() + " to its end: " + what, true);
      }
      if (read == 0) break;
      use(std::string_view(piece).substr(0, static_cast<std::size_t>(read)));
    }
  }
}

}  // namespace mn::data
