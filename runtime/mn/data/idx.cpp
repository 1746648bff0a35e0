#include <mn/data/idx.hpp>

#include <mn/core/error.hpp>
#include <mn/core/file_kind.hpp>
#include <mn/data/gzip_file.hpp>
#include <mn/data/memory_dataset.hpp>

namespace mn {
namespace data {
namespace {

constexpr std::size_t kMaxIdxDims = 8;
constexpr unsigned kUnsignedByte = 0x08;

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte b : bytes.first(4)) value = value << 8 | std::to_integer<std::uint32_t>(b);
  return value;
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> content, std::size_t dims, const std::string& file) {
  if (content.size() < 4 || content[0] != std::byte{0} || content[1] != std::byte{0}) {
    const std::string kind = but_kind_of_file({reinterpret_cast<const char*>(content.data()), content.size()});
    throw DataError(file + " is not an IDX file" +
                    (kind.empty() ? ": it does not begin with the magic number 0 0 8 " + std::to_string(dims) : kind));
  }
  const auto type = std::to_integer<unsigned>(content[2]);
  const auto found = std::to_integer<std::size_t>(content[3]);
  if (type != kUnsignedByte) {
    throw DataError(file + " holds IDX elements of type " + std::to_string(type) + "; unsigned bytes (8) are expected");
  }
  if (found > kMaxIdxDims || (dims == 1 ? found != 1 : found < dims)) {
    throw DataError(file + " is an IDX array of " + std::to_string(found) + " dimensions where " +
                    std::to_string(dims) + (dims == 1 ? " is" : " or more are") +
                    " expected: are images and labels swapped?");
  }
  const std::size_t header = 4 + 4 * found;
  if (content.size() < header) throw DataError(file + " is truncated: its IDX header is incomplete");

  IdxArray array;
  std::uint64_t total = 1;
  for (std::size_t d = 0; d < found; ++d) {
    const std::uint32_t extent = big_endian(content.subspan(4 + 4 * d));
    array.shape.push_back(extent);
    if (extent == 0)
      throw DataError(file + " is an IDX array without elements: its extent " + std::to_string(d) + " is 0");
    constexpr std::uint64_t kMax = std::uint64_t{1} << 48;
    if (total > kMax / extent) throw DataError(file + " is damaged: its IDX extents are impossible");
    total *= extent;
  }
  array.bytes = content.subspan(header);
  if (array.bytes.size() != total) {
    throw DataError(file + (array.bytes.size() < total ? " is truncated" : " is too long") + ": it holds " +
                    std::to_string(array.bytes.size()) + " bytes of elements, its header says " +
                    std::to_string(total));
  }
  return array;
}

std::vector<std::byte> read_maybe_gzip(const std::filesystem::path& path) {
  constexpr std::size_t kPiece = 1 << 20;
  GzipFile file(path);
  std::vector<std::byte> content;
  for (std::size_t read = kPiece; read == kPiece;) {
    content.resize(content.size() + kPiece);
    read = file.read(std::span(content).last(kPiece));
    content.resize(content.size() - kPiece + read);
  }
  return content;
}

}  // namespace data

std::shared_ptr<MemoryDataset> read_idx_dataset(const std::filesystem::path& images,
                                                const std::filesystem::path& labels) {
  const auto image_content = data::read_maybe_gzip(images);
  const auto label_content = data::read_maybe_gzip(labels);
  const data::IdxArray x = data::parse_idx(image_content, 2, images.string());
  const data::IdxArray y = data::parse_idx(label_content, 1, labels.string());
  if (x.shape[0] != y.shape[0]) {
    throw DataError(images.string() + " holds " + std::to_string(x.shape[0]) + " samples, " + labels.string() + " " +
                    std::to_string(y.shape[0]) + " labels: they do not belong together");
  }
  std::vector<std::int64_t> classes;
  for (const std::byte b : y.bytes) classes.push_back(std::to_integer<std::int64_t>(b));
  return std::make_shared<MemoryDataset>(labeled({.shape = {x.shape.begin() + 1, x.shape.end()}}),
                                         labeled_samples({x.bytes.begin(), x.bytes.end()}, classes));
}

}  // namespace mn
