// Reads blocks of samples from ordinary HDF5 files. The calling thread reads each chunk of a block by one pread, undoes
// the chunk's filters, and copies the samples' elements into the block.
//
// (1) All addresses lie inside the file: Hdf5Table has compared them with the file's recorded length, and
//     check_unchanged() has checked that the file still has this length.
// (2) Chunks at the border of the grid may reach beyond the samples' shape; elements beyond the shape are not copied.
#include <mn/data/hdf5_reader.hpp>

#include <algorithm>
#include <cstring>

#include <mn/core/error.hpp>
#include <mn/data/chunk_filters.hpp>

namespace mn::data {
namespace {

template <std::size_t kBytes>
void reverse_each(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + kBytes <= bytes.size(); at += kBytes) {
    std::reverse(bytes.data() + at, bytes.data() + at + kBytes);
  }
}

void swap_elements(std::span<std::byte> bytes, std::size_t element_bytes) {
  if (element_bytes == 2) reverse_each<2>(bytes);
  if (element_bytes == 4) reverse_each<4>(bytes);
  if (element_bytes == 8) reverse_each<8>(bytes);
}

void fill(std::span<std::byte> bytes, std::span<const std::uint8_t> element) {
  for (std::size_t at = 0; at < bytes.size(); at += element.size()) {
    std::memcpy(bytes.data() + at, element.data(), element.size());
  }
}

/// Copies the elements of the chunk `from`, of the shape `chunk`, into the block `to`, of the shape `block`. `corner`
/// is the index in the block of the chunk's first element.
void copy_chunk(std::span<const std::byte> from, std::span<const std::int64_t> chunk, std::span<std::byte> to,
                std::span<const std::int64_t> block, std::span<const std::int64_t> corner, std::int64_t element_bytes) {
  const std::int64_t extent = std::min(chunk[0], block[0] - corner[0]);
  if (chunk.size() == 1) {
    std::memcpy(to.data() + corner[0] * element_bytes, from.data(), extent * element_bytes);
    return;
  }
  const auto stride = [&](std::span<const std::int64_t> shape) {
    std::int64_t bytes = element_bytes;
    for (const std::int64_t own : shape.subspan(1)) bytes *= own;
    return bytes;
  };
  const std::int64_t from_stride = stride(chunk);
  const std::int64_t to_stride = stride(block);
  for (std::int64_t i = 0; i < extent; ++i) {
    copy_chunk(from.subspan(i * from_stride, from_stride), chunk.subspan(1),
               to.subspan((corner[0] + i) * to_stride, to_stride), block.subspan(1), corner.subspan(1), element_bytes);
  }
}

}  // namespace

Hdf5Reader::Hdf5Reader(const SampleSpec& spec, const Hdf5File& facts, File bytes, std::shared_ptr<IoCounters> counters)
    : spec_(&spec), facts_(&facts), file_(std::move(bytes)), counters_(std::move(counters)) {
  counters_->opens += 1;
}

void Hdf5Reader::read_bytes(std::uint64_t address, std::span<std::byte> out) const {
  file_.read_at(address, out);
  counters_->bytes += std::ssize(out);
}

void Hdf5Reader::read_blocks(std::size_t field, std::int64_t first, std::int64_t count,
                             std::span<std::byte> out) const {
  const std::int64_t begin = begin_of(field, first_sample(field, first));
  const std::int64_t end = begin_of(field, first_sample(field, first + count));
  if (std::ssize(out) != end - begin) throw ArgumentError("samples need room of their length");
  has_runs(field) ? read_contiguous(field, begin, out) : read_row(field, first, out);
  if (array(field).is_swapped) swap_elements(out, size_of((*spec_)[field].dtype));
}

void Hdf5Reader::read_contiguous(std::size_t field, std::int64_t begin, std::span<std::byte> out) const {
  const Hdf5Array& own = array(field);
  if (own.address == kNotStored) return fill(out, own.fill);
  read_bytes(own.address + static_cast<std::uint64_t>(begin), out);
}

void Hdf5Reader::will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept {
  const Hdf5Array& own = array(field);
  if (!own.chunk.empty() || own.address == kNotStored) return;
  const std::int64_t begin = begin_of(field, first_sample(field, first));
  const std::int64_t end = begin_of(field, first_sample(field, first + count));
  if (begin < end)
    file_.will_read(own.address + static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin));
}

std::string Hdf5Reader::damage(std::size_t field, std::int64_t block) const {
  return file_.path().string() + ": the chunk of samples " + std::to_string(first_sample(field, block)) + " to " +
         std::to_string(first_sample(field, block + 1) - 1) + " of field " + (*spec_)[field].name + " is damaged";
}

ByteBuffer Hdf5Reader::load_chunk(std::size_t field, std::size_t number) const {
  const Hdf5Array& own = array(field);
  const StoredChunk chunk = own.chunks[static_cast<std::int64_t>(number)];
  const std::size_t element_bytes = own.fill.size();
  std::size_t bytes = element_bytes;
  for (const std::int64_t extent : own.chunk) bytes *= static_cast<std::size_t>(extent);
  if (chunk.address == kNotStored) {
    ByteBuffer filled(bytes);
    fill(filled, own.fill);
    return filled;
  }
  ByteBuffer stored(chunk.bytes);
  read_bytes(chunk.address, stored);
  return undo_filters(std::move(stored), own.filters, chunk.skipped, element_bytes, bytes);
}

void Hdf5Reader::read_row(std::size_t field, std::int64_t block, std::span<std::byte> out) const {
  const FieldSpec& spec = (*spec_)[field];
  const Hdf5Array& own = array(field);
  std::vector<std::int64_t> shape = {samples_in(field, block)};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  const std::vector<std::int64_t> grid = own.grid(spec);
  std::int64_t in_row = 1;
  for (const std::int64_t count : grid) in_row *= count;
  for (std::int64_t i = 0; i < in_row; ++i) {
    std::vector<std::int64_t> corner(shape.size(), 0);
    for (std::size_t d = grid.size(), rest = static_cast<std::size_t>(i); d-- > 0;) {
      corner[d + 1] = static_cast<std::int64_t>(rest % grid[d]) * own.chunk[d + 1];
      rest /= grid[d];
    }
    try {
      const ByteBuffer chunk = load_chunk(field, static_cast<std::size_t>(block * in_row + i));
      copy_chunk(chunk, own.chunk, out, shape, corner, static_cast<std::int64_t>(own.fill.size()));
    } catch (const FileError&) {
      throw;
    } catch (const DataError& error) {
      throw DataError(damage(field, block) + ": " + error.what());
    }
  }
}

}  // namespace mn::data
