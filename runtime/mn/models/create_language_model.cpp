#include <mn/models/create_language_model.hpp>

#include <mn/models/gpt.hpp>
#include <mn/models/llama.hpp>

namespace mn::models {

std::shared_ptr<LanguageModel> create_language_model(const NetworkOptions& options) {
  if (const auto* gpt = std::get_if<GptOptions>(&options)) return std::make_shared<Gpt>(*gpt);
  return std::make_shared<Llama>(std::get<LlamaOptions>(options));
}

}  // namespace mn::models
