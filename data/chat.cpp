#include "data/chat.hpp"

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

using nlohmann::json;

const std::string& text_of(const json& message, const char* key) {
  const auto found = message.is_object() ? message.find(key) : message.end();
  if (message.is_object() && found != message.end() && found->is_string()) {
    return found->get_ref<const std::string&>();
  }
  throw DataError(std::string("a message of the chat has no text \"") + key +
                  "\": messages are {\"role\": \"user\", \"content\": \"…\"}");
}

}  // namespace

const ChatTemplate* find_chat_template(const std::string& name) {
  static const std::vector<ChatTemplate> kTemplates = {
      // Qwen, and others after OpenAI's ChatML.
      {.name = "chatml",
       .before_role = "<|im_start|>",
       .before_content = "\n",
       .end = "<|im_end|>",
       .after = "\n",
       .special_tokens = {"<|im_start|>", "<|im_end|>"}},
      {.name = "llama3",
       .before_role = "<|start_header_id|>",
       .before_content = "<|end_header_id|>\n\n",
       .end = "<|eot_id|>",
       .after = "",
       .trims = true,
       .special_tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
      // For vocabularies without special tokens.
      {.name = "plain", .before_role = "", .before_content = ":\n", .end = "\n\n", .after = ""},
  };
  const auto found = std::ranges::find(kTemplates, name, &ChatTemplate::name);
  return found == kTemplates.end() ? nullptr : &*found;
}

Document chat_document(const json& messages, const ChatTemplate& chat) {
  if (!messages.is_array() || messages.empty()) throw DataError("a chat is a list of messages, at least one");
  Document document;
  std::string prompt;
  for (const json& message : messages) {
    const std::string& role = text_of(message, "role");
    const std::string& content = text_of(message, "content");
    const std::string text = (chat.trims ? std::string(trimmed(content)) : content) + chat.end;
    prompt += chat.before_role + role + chat.before_content;
    if (role == "assistant") {
      document.push_back({prompt, false});
      document.push_back({text, true});
      prompt = chat.after;
    } else {
      prompt += text + chat.after;
    }
  }
  if (!prompt.empty()) document.push_back({prompt, false});
  return document;
}

void check_special_tokens(const ChatTemplate& chat, const Vocabulary& vocabulary, const std::string& source) {
  for (const std::string& token : chat.special_tokens) {
    if (vocabulary.encode(token, true).size() == 1) continue;
    throw DataError(source + " has no token " + token + ", which --chat " + chat.name +
                        " needs: choose the chat template of the vocabulary's model, or plain",
                    true);
  }
}

}  // namespace mn::data
