/// Reads tokenizers of other programs. Throws ArgumentError or nlohmann's errors if a file is bad, or asks for
/// something that Tokenizer does not do.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/tokenizer/tokenizer.hpp>

namespace mn::data {

/// The tokenizer of a tokenizer.json, as the `tokenizers` library writes it.
[[nodiscard]] std::shared_ptr<const Tokenizer> read_tokenizer_json(const nlohmann::json& document);

}  // namespace mn::data
