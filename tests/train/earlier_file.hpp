/// Checkpoints as earlier versions wrote them: one file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mn/core/checksum.hpp>
#include <mn/core/json.hpp>

namespace mn::test {

/// The bytes of such a file. The sections are "model", "optimizer", "extensions", "rank.0", …
inline std::string earlier_checkpoint(const nlohmann::json& about,
                                      const std::vector<std::pair<std::string, std::string>>& sections) {
  const auto crc = [](const std::string& text) { return crc32c(std::as_bytes(std::span(text))); };
  nlohmann::json index = {{"about", about}, {"sections", nlohmann::json::array()}};
  std::string content;
  for (const auto& [name, bytes] : sections) {
    index["sections"].push_back({{"name", name}, {"bytes", bytes.size()}, {"crc32c", crc(bytes)}});
    content += bytes;
  }
  const std::string text = index.dump();
  const std::uint64_t size = text.size();
  const std::uint32_t crc_and_zero[] = {crc(text), 0};
  return "mn-ckpt2" + std::string(reinterpret_cast<const char*>(&size), sizeof size) +
         std::string(reinterpret_cast<const char*>(crc_and_zero), sizeof crc_and_zero) + text + content;
}

}  // namespace mn::test
