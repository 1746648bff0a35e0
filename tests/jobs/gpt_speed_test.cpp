// The values that jobs/gpt derives for its log.
#include "gpt/speed.hpp"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/json.hpp>
#include <mn/models/create_language_model.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::jobs {
namespace {

TEST(GptSpeed, ValuesFollowFromLossAndSpeed) {
  nlohmann::json entry = {{"main/loss", 2.0},
                          {"validation/books/main/loss", 1.0},
                          {"validation/main/loss", nullptr},
                          {"main/bits_per_byte", 3.0},
                          {"images_per_second", 40.0}};
  const nlohmann::json before = entry;
  LanguageFacts facts = {.context = 1000, .ranks = 4, .flop_per_token = 2e9, .peak_flop = 1e14};
  language_values(facts)(entry);
  EXPECT_DOUBLE_EQ(entry["main/perplexity"], std::exp(2));
  EXPECT_DOUBLE_EQ(entry["validation/books/main/perplexity"], std::exp(1));
  EXPECT_EQ(entry["tokens_per_second"], 40'000);
  EXPECT_EQ(entry["tokens_per_second_per_rank"], 10'000);
  EXPECT_DOUBLE_EQ(entry["mfu"], 0.2);
  EXPECT_EQ(entry.size(), before.size() + 5);
  entry = before;
  facts.has_plain_loss = false;
  facts.peak_flop = {};
  language_values(facts)(entry);
  EXPECT_FALSE(entry.contains("main/perplexity") || entry.contains("mfu"));
  EXPECT_TRUE(entry.contains("validation/books/main/perplexity"));
}

TEST(GptSpeed, TokensCostWhatTheirMatricesCost) {
  const models::GptOptions gpt = {.vocabulary = 50, .context = 16, .layers = 3, .heads = 2, .width = 8};
  const double per_layer = 12 * 8 * 8;  // c_attn, c_proj and the perceptron
  EXPECT_EQ(flop_per_token(*models::create_language_model(gpt), gpt), 6 * (3 * per_layer + 50 * 8) + 12 * 3 * 8 * 16);
  models::LlamaOptions llama = {
      .vocabulary = 50, .context = 16, .layers = 3, .heads = 2, .head_width = 6, .width = 8, .hidden = 10};
  const double of_llama = 4 * 8 * 12 + 3 * 8 * 10;
  for (const bool tied : {false, true}) {
    llama.tied = tied;
    EXPECT_EQ(flop_per_token(*models::create_language_model(llama), llama),
              6 * (3 * of_llama + 50 * 8) + 12 * 3 * 12 * 16);
  }
}

TEST(GptSpeed, KnownGpusHaveAPeak) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "0000:1b:00.0");
  std::ofstream(folder.path() / "0000:1b:00.0" / "information") << "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n";
  const std::string gpu = gpu_name(folder.path());
  EXPECT_EQ(gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu_name(folder.path() / "none"), "");
  EXPECT_EQ(peak_flop_per_second(gpu, "bf16"), 989.4e12);
  EXPECT_EQ(peak_flop_per_second("NVIDIA A100-SXM4-80GB", "tf32"), 156e12);
  EXPECT_EQ(peak_flop_per_second(gpu, "fp32"), std::nullopt);
  EXPECT_EQ(peak_flop_per_second("", "bf16"), std::nullopt);
  EXPECT_EQ(peak_flop_per_second("NVIDIA GeForce GTX 1080", "bf16"), std::nullopt);
}

}  // namespace
}  // namespace mn::jobs
