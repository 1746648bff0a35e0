/// Writes chats as texts, by the templates of known models.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/vocabulary.hpp>

namespace mn::data {

/// A part of a document. Its tokens do not depend on the other parts, as when a model answers a prompt.
struct DocumentPart {
  std::string text;
  bool is_answer = true;  ///< false: a part of a prompt
};
using Document = std::vector<DocumentPart>;

/// The text around a message: before the role, between role and content, and after the content.
struct ChatTemplate {
  const char* name;
  const char* before_role;
  const char* before_content;
  const char* end;                               ///< the end of an answer, which a model learns
  const char* after;                             ///< the text between an answer's end and the next message
  bool trims = false;                            ///< blanks around the content are left out
  std::vector<std::string> special_tokens = {};  ///< tokens that a vocabulary must have
};

/// The template called `name`: chatml, llama3 or plain. Null for any other name.
[[nodiscard]] const ChatTemplate* find_chat_template(const std::string& name);

/// The document of a chat, a list of messages {"role": …, "content": …}. Contents of the role "assistant" are answers.
/// Throws DataError for any other form.
[[nodiscard]] Document chat_document(const nlohmann::json& messages, const ChatTemplate& chat);

/// Throws a DataError that begins with `source` if the vocabulary lacks a token of the template.
void check_special_tokens(const ChatTemplate& chat, const Vocabulary& vocabulary, const std::string& source);

}  // namespace mn::data
