#include <mn/nn/exported/archive.hpp>

#include <span>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::exported {

Archive::Archive(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {
  for (const ZipMember& member : read_zip_directory(bytes_, source_, "torch.export.save")) {
    const std::string name = member.name.substr(member.name.find('/') + 1);
    if (!records_.emplace(name, member).second) fail("has the record " + json_quoted(name) + " twice");
  }
}

std::string_view Archive::record(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) {
    if (records_.contains("data.pkl")) {
      fail("is what torch.save or torch.jit.save writes (.pt, .pth): export the model with torch.export.save");
    }
    fail("lacks the record " + json_quoted(name) + ": write it with torch.export.save of torch 2.9 or newer");
  }
  const ZipMember& member = found->second;
  if (member.method != ZipMember::Method::kStored) {
    fail("has the record " + json_quoted(name) + " compressed, which torch.export.save does not do");
  }
  const std::string_view content = bytes_.substr(member.begin, member.bytes);
  if (crc32_gzip(std::as_bytes(std::span(content))) != member.crc) {
    fail("is damaged: the checksum of the record " + json_quoted(name) + " is wrong");
  }
  return content;
}

void Archive::fail(const std::string& how) const { throw DataError(source_ + " " + how); }

}  // namespace mn::exported
