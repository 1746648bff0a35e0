#include "gpt/options.hpp"

#include <mn/core/error.hpp>

namespace mn::jobs {

void declare_options(Options& options, GptSettings& given) {
  options.add("train", given.train, "DIR", "tokens to train on, made by mnshard tokens; default: gpt/train");
  options.add("val", given.val, "DIR", "tokens to validate on; default: gpt/val");
  options.add("vocabulary", given.vocabulary, "FILE", "default: vocabulary.json beside the folder of --train");
  options.add("layers", given.network.layers, "layers of attention and perceptron", 1, 1000);
  options.add("heads", given.network.heads, "heads of each attention", 1, 1000);
  options.add("width", given.network.width, "width of the embeddings, a multiple of the heads", 1, 1 << 20);
  options.add("dropout", given.network.dropout, "part of the activations that training leaves out", 0, 0.99);
  options.add_flag("recompute", given.recompute,
                   "keep no activations of the layers: less memory, a third more computing");
  options.add("report-every", given.report_every, "updates between two reports", 1);
  options.add("generate", given.generate, "TEXT", "continue TEXT with the weights of --initmodel, and train nothing");
  options.add("length", given.sampling.length, "tokens that --generate makes", 1, 1 << 30);
  options.add("temperature", given.sampling.temperature,
              "temperature of --generate: below 1 likely tokens become likelier; 0: always the likeliest", 0, 100);
  options.add("top-k", given.sampling.top_k, "likeliest tokens that --generate draws from; 0: from all", 0);
  options.add_check([&given] {
    if (given.network.width % given.network.heads != 0) throw UsageError("--width must be a multiple of --heads");
    if (!given.generate.empty() && given.initmodel.empty()) {
      throw UsageError("--generate needs weights: --initmodel OUT/model.safetensors");
    }
  });
  const auto generates = [&given] { return !given.generate.empty(); };
  const std::string without_generate = "without --generate";
  options.add_conditions({{"length", generates, without_generate},
                          {"temperature", generates, without_generate},
                          {"top-k", generates, without_generate}});
}

double base_rate(const GptSettings& given) { return given.lr > 0 ? given.lr : 0.003; }

}  // namespace mn::jobs
