#include <mn/nn/exported/archive.hpp>

#include <span>
#include <utility>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::exported {
namespace {

/// What writes such a file.
const char* writer_of(std::string_view source) { return source.ends_with(".mnc") ? "mn-compile" : "torch.export.save"; }

}  // namespace

Archive::Archive(std::string_view bytes, std::string source)
    : source_(std::move(source)),
      read_([bytes](const ZipMember& member) { return std::string(bytes.substr(member.begin, member.bytes)); }) {
  for (const ZipMember& member : read_zip_directory(bytes, source_, writer_of(source_))) add(member);
}

Archive::Archive(std::shared_ptr<const File> file)
    : source_(file->path().string()), read_([file](const ZipMember& member) {
        std::string bytes(member.bytes, '\0');
        file->read_at(member.begin, std::as_writable_bytes(std::span(bytes)));
        return bytes;
      }) {
  for (const ZipMember& member : read_zip_directory(*file, writer_of(source_))) add(member);
}

Archive::Archive(const std::map<std::string, std::string>& records, std::string source)
    : source_(std::move(source)), read_([records](const ZipMember& member) { return records.at(member.name); }) {
  for (const auto& [name, bytes] : records) {
    records_.emplace(name, ZipMember{.name = name,
                                     .crc = crc32_gzip(std::as_bytes(std::span(bytes))),
                                     .stored_bytes = bytes.size(),
                                     .bytes = bytes.size()});
  }
}

void Archive::add(const ZipMember& member) {
  const std::string name = member.name.substr(member.name.find('/') + 1);
  if (!records_.emplace(name, member).second) fail("has the record " + json_quoted(name) + " twice");
}

const ZipMember& Archive::find(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) {
    if (records_.contains("data.pkl")) {
      fail("is what torch.save or torch.jit.save writes (.pt, .pth): export the model with torch.export.save");
    }
    fail("lacks the record " + json_quoted(name) + ": write it with " + writer_of(source_) + " of torch 2.9 or newer");
  }
  if (found->second.method != ZipMember::Method::kStored) {
    fail("has the record " + json_quoted(name) + " compressed, which " + writer_of(source_) + " does not do");
  }
  return found->second;
}

std::string Archive::record(const std::string& name) const {
  const ZipMember& member = find(name);
  std::string content = read_(member);
  if (crc32_gzip(std::as_bytes(std::span(content))) != member.crc) {
    fail("is damaged: the checksum of the record " + json_quoted(name) + " is wrong");
  }
  return content;
}

std::vector<std::string> Archive::names(const std::string& folder, const std::string& end) const {
  std::vector<std::string> names;
  for (const auto& [name, member] : records_) {
    if (name.starts_with(folder) && name.ends_with(end)) names.push_back(name);
  }
  return names;
}

std::map<std::string, std::string> Archive::program_records() const {
  std::map<std::string, std::string> records;
  for (const auto& [name, member] : records_) {
    if (name == "byteorder" || name.ends_with(".json")) records.emplace(name, record(name));
  }
  return records;
}

void Archive::fail(const std::string& how) const { throw DataError(source_ + " " + how); }

}  // namespace mn::exported
