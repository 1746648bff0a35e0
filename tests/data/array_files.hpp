/// Files of numpy's, byte by byte: .npy and .npz.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <zlib.h>

namespace mn::test {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::string number(T value) {
  return bytes_of(std::vector<T>{value});
}

/// Version 1, as numpy.save pads it.
inline std::string npy(const std::string& dictionary, const std::string& elements) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + number(static_cast<std::uint16_t>(header.size())) + header + elements;
}

inline std::string npy(const std::string& type, bool fortran, const std::string& shape, const std::string& elements) {
  return npy(
      "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
      elements);
}

inline std::string deflated(const std::string& content) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct ZipEntry {
  std::string name;
  std::string content;
};

/// As numpy.savez (stored) or savez_compressed. `zip64`: sizes and places in extra fields, and a ZIP64 end record.
inline std::string zip(const std::vector<ZipEntry>& entries, bool deflate, bool zip64 = false) {
  const auto u16 = [](std::size_t value) { return number(static_cast<std::uint16_t>(value)); };
  const auto u32 = [](std::size_t value) { return number(static_cast<std::uint32_t>(value)); };
  const auto u64 = [](std::size_t value) { return number(static_cast<std::uint64_t>(value)); };
  constexpr std::size_t kNone = 0xFFFFFFFF;
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const std::string stored = deflate ? deflated(entry.content) : entry.content;
    const auto crc =
        crc32(0, reinterpret_cast<const Bytef*>(entry.content.data()), static_cast<uInt>(entry.content.size()));
    const std::string common = u16(zip64 ? 45 : 20) + u16(0) + u16(deflate ? 8 : 0) + u32(0) + u32(crc) +
                               u32(zip64 ? kNone : stored.size()) + u32(zip64 ? kNone : entry.content.size()) +
                               u16(entry.name.size());
    const std::string sizes = u64(entry.content.size()) + u64(stored.size());
    const std::string local = zip64 ? u16(1) + u16(16) + sizes : "";
    const std::string extra = zip64 ? u16(9) + u16(2) + "??" + u16(1) + u16(24) + sizes + u64(file.size()) : "";
    directory += "PK\1\2" + u16(45) + common + u16(extra.size()) + u16(0) + u16(0) + u16(0) + u32(0) +
                 u32(zip64 ? kNone : file.size()) + entry.name + extra;
    file += "PK\3\4" + common + u16(local.size()) + entry.name + local + stored;
  }
  const std::size_t at = file.size(), bytes = directory.size(), count = entries.size();
  file += directory;
  if (zip64) {
    const std::size_t end = file.size();
    file += "PK\6\6" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(count) + u64(count) + u64(bytes) + u64(at);
    file += "PK\6\7" + u32(0) + u64(end) + u32(1);
  }
  return file + "PK\5\6" + u16(0) + u16(0) + u16(count) + u16(count) + u32(zip64 ? kNone : bytes) +
         u32(zip64 ? kNone : at) + u16(0);
}

}  // namespace mn::test
