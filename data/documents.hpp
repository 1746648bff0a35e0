/// Reads documents from files with many of them: JSON lines and Parquet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat.hpp"
#include "data/text_files.hpp"

namespace mn::data {

/// Calls use(line, number) for each line of a piece, without the line's end and not for blank lines. The first line of
/// the piece has number 1. Throws DataError if the file can't be read, or if a line has more than 256 MiB.
void read_lines(const std::filesystem::path& file, const TextPiece& piece,
                const std::function<void(std::string_view line, std::int64_t number)>& use);

/// Cuts file number `number`, of JSON lines, into pieces of about `piece_bytes`, and adds them to `pieces`. A packed
/// file is one piece. Throws a DataError that names the file if it does not begin like JSON lines.
void cut_lines(const std::filesystem::path& file, std::size_t number, std::int64_t piece_bytes,
               std::vector<TextPiece>& pieces);

/// The document in a line of JSON: the text of the object's member `field` or, with a template, the chat there, a list
/// of messages. Throws a DataError without the names of file and line.
[[nodiscard]] Document document_of(std::string_view line, const std::string& field, const ChatTemplate* chat);

/// Calls use() for each document of a piece of JSON lines. Throws a DataError that names the file and the number of a
/// wrong line. use() may throw a DataError, which gets both.
void read_json_lines(const std::filesystem::path& file, const TextPiece& piece, const std::string& field,
                     const ChatTemplate* chat, const std::function<void(const Document&)>& use);

}  // namespace mn::data
