/// tar files, block by block.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace mn::test {

enum class TarFormat { kUstar, kGnu, kPax };

inline std::string padded(std::string content) {
  content.resize((content.size() + 511) / 512 * 512, '\0');
  return content;
}

/// A header of `bytes` of content.
inline std::string tar_header(const std::string& name, char type, std::size_t bytes, const std::string& prefix = "") {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  char number[16];
  put(0, name.substr(0, 100));
  put(100, "0000644");
  std::snprintf(number, sizeof number, "%011zo", bytes);
  put(124, number);
  put(136, "00000000000");
  put(148, "        ");
  put(156, std::string(1, type));
  put(257, std::string("ustar\0"
                       "00",
                       8));
  put(345, prefix);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof number, "%06o", sum);
  put(148, std::string(number) + '\0' + ' ');
  return block;
}

inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) length = std::to_string(length).size() + rest.size();
  return std::to_string(length) + rest;
}

/// A file. A long name is cut at a slash (ustar), or comes before it.
inline std::string tar_file(const std::string& name, const std::string& content, TarFormat format = TarFormat::kUstar) {
  const std::string body = padded(content);
  if (name.size() <= 100) return tar_header(name, '0', content.size()) + body;
  if (format == TarFormat::kUstar) {
    const std::size_t slash = name.rfind('/', 155);
    return tar_header(name.substr(slash + 1), '0', content.size(), name.substr(0, slash)) + body;
  }
  if (format == TarFormat::kGnu) {
    return tar_header("././@LongLink", 'L', name.size() + 1) + padded(name + '\0') +
           tar_header(name, '0', content.size()) + body;
  }
  const std::string records = pax_record("mtime", "1.5") + pax_record("path", name);
  return tar_header("PaxHeaders/x", 'x', records.size()) + padded(records) + tar_header("short", '0', content.size()) +
         body;
}

inline std::string tar_end() { return std::string(10240, '\0'); }

}  // namespace mn::test
