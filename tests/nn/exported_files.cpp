#include "tests/nn/exported_files.hpp"

#include <cstdint>
#include <cstring>

#include <zlib.h>

#include <mn/core/file.hpp>
#include <mn/nn/exported/archive.hpp>

#include "tests/support/folders.hpp"

namespace mn::test {
namespace {

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// What a local header and an entry of the central directory have in common, from the version to the lengths.
std::string common_fields(const std::string& name, const std::string& content, std::uint16_t extra_bytes) {
  std::string fields;
  put<std::uint16_t>(fields, 45);  // the version that knows zip64
  put<std::uint16_t>(fields, 0);   // flags
  put<std::uint16_t>(fields, 0);   // stored
  put<std::uint32_t>(fields, 0);   // time and date
  put<std::uint32_t>(fields, crc_of(content));
  put<std::uint32_t>(fields, 0xffffffff);
  put<std::uint32_t>(fields, 0xffffffff);
  put<std::uint16_t>(fields, static_cast<std::uint16_t>(name.size()));
  put<std::uint16_t>(fields, extra_bytes);
  return fields;
}

std::string zip64_field(const std::string& content, std::uint64_t offset) {
  std::string field;
  put<std::uint16_t>(field, 1);
  put<std::uint16_t>(field, 24);
  put<std::uint64_t>(field, content.size());
  put<std::uint64_t>(field, content.size());
  put<std::uint64_t>(field, offset);
  return field;
}

std::string end_of(std::uint64_t directory, std::uint64_t directory_bytes, std::uint64_t count) {
  std::string end;
  put<std::uint32_t>(end, 0x06064b50);
  put<std::uint64_t>(end, 44);
  put<std::uint16_t>(end, 45);
  put<std::uint16_t>(end, 45);
  put<std::uint64_t>(end, 0);
  put<std::uint64_t>(end, count);
  put<std::uint64_t>(end, count);
  put<std::uint64_t>(end, directory_bytes);
  put<std::uint64_t>(end, directory);
  put<std::uint32_t>(end, 0x07064b50);
  put<std::uint32_t>(end, 0);
  put<std::uint64_t>(end, directory + directory_bytes);
  put<std::uint32_t>(end, 1);
  put<std::uint32_t>(end, 0x06054b50);
  put<std::uint32_t>(end, 0);
  put<std::uint32_t>(end, 0xffffffff);  // twice the number of records
  put<std::uint32_t>(end, 0xffffffff);
  put<std::uint32_t>(end, 0xffffffff);
  put<std::uint16_t>(end, 0);
  return end;
}

}  // namespace

std::string model_file(const std::string& name) { return read_file(source_folder() / "tests/nn/models" / name); }

Records records_of(const std::string& name) {
  const std::string bytes = model_file(name + ".pt2");
  const exported::Archive archive(bytes, name);
  Records records;
  const auto take = [&](const std::string& record) { records[record] = archive.record(record); };
  for (const char* record : {"byteorder", "models/model.json", "data/weights/model_weights_config.json",
                             "data/constants/model_constants_config.json", "data/sample_inputs/model.pt"}) {
    take(record);
  }
  for (int i = 0; archive.has("data/weights/weight_" + std::to_string(i)); ++i) {
    take("data/weights/weight_" + std::to_string(i));
  }
  return records;
}

std::string archive_of(const Records& records) {
  std::string archive, directory;
  for (const auto& [key, content] : records) {
    const std::string name = "archive/" + key;
    const std::uint64_t offset = archive.size();
    put<std::uint32_t>(archive, 0x04034b50);
    archive += common_fields(name, content, 0) + name + content;
    const std::string field = zip64_field(content, offset);
    put<std::uint32_t>(directory, 0x02014b50);
    put<std::uint16_t>(directory, 45);
    directory += common_fields(name, content, static_cast<std::uint16_t>(field.size()));
    directory.append(10, '\0');  // no comment, no disks, no attributes
    put<std::uint32_t>(directory, 0xffffffff);
    directory += name + field;
  }
  return archive + directory + end_of(archive.size(), directory.size(), records.size());
}

}  // namespace mn::test
