#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/json.hpp>

namespace mn {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Not;
using ::testing::StartsWith;

/// The message of the DataError that `parse` throws.
std::string error_of(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}
std::string json_error(const std::string& text) {
  return error_of([&] { (void)parse_json(text, "the file"); });
}
std::string cbor_error(const std::string& bytes) {
  return error_of([&] { (void)parse_cbor(bytes, "the file"); });
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string cbor_of(const json& document) {
  std::string bytes;
  json::to_cbor(document, bytes);
  return bytes;
}

TEST(Json, DocumentsOfEachKindComeBack) {
  const json document = {{"numbers", {0, -1, 23, 24, 255, 256, 65536, 1LL << 40, -(1LL << 40), 0.5, 1e300}},
                         {"text", {"", "[{\"\\", std::string(300, 'x'), std::string(70000, 'y')}},
                         {"others", {nullptr, true, false, json::array(), json::object()}}};
  EXPECT_EQ(parse_json(document.dump(), ""), document);
  EXPECT_EQ(parse_cbor(cbor_of(document), ""), document);
  const json bytes = {{"bytes", json::binary({1, 2, 3})}, {"none", json::binary({})}};
  EXPECT_EQ(parse_cbor(cbor_of(bytes), ""), bytes);
}

TEST(Json, DepthIsBounded) {
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth), "").dump(), nested(kMaxJsonDepth));
  EXPECT_EQ(parse_cbor(cbor_of(json::parse(nested(kMaxJsonDepth))), "").dump(), nested(kMaxJsonDepth));
  const std::string error = "the file is damaged: more than 64 arrays and objects within each other at byte 64";
  EXPECT_EQ(json_error(nested(kMaxJsonDepth + 1)), error);
  EXPECT_EQ(cbor_error(cbor_of(json::parse(nested(kMaxJsonDepth + 1)))), error);
  EXPECT_EQ(parse_json("[" + nested(40) + "," + nested(40) + "]", "").size(), 2u) << "neighbors are not nested";
}

TEST(Json, WholeNumbersAloneAreTaken) {
  EXPECT_EQ(whole_number<std::uint8_t>(json(255)), 255);
  EXPECT_EQ(whole_number<std::int64_t>(json(-3)), -3);
  EXPECT_EQ(whole_number<std::uint64_t>(json(~std::uint64_t{0})), ~std::uint64_t{0});
  EXPECT_EQ(whole_numbers<std::int8_t>(json{1, -128}), (std::vector<std::int8_t>{1, -128}));
  for (const char* text : {"1.5", "9e35", "-1", "256", "1.0", "true", "null", "\"1\"", "[1]", "18446744073709551616"}) {
    EXPECT_EQ(error_of([&] {
                read_json("it", [&] { return whole_number<std::uint8_t>(json::parse(text)); });
              }).find("it does not have"),
              0u)
        << text;
  }
  EXPECT_THROW(whole_number<std::int64_t>(json(~std::uint64_t{0})), json::type_error);
  for (const char* text : {"7", "{}", "[1, 2.5]"}) {
    EXPECT_THROW(whole_numbers<int>(json::parse(text)), json::type_error) << text;
  }
}

TEST(Json, MillionsOfBracketsAreAnError) {
  constexpr int kMany = 10'000'000;
  EXPECT_THAT(json_error(nested(kMany)), EndsWith("within each other at byte 64"));
  EXPECT_THAT(json_error(std::string(kMany, '{')), EndsWith("within each other at byte 64"));
  for (const char c : {'\x81', '\x96', '\xa1', '\x7f', '\x5f', '\x9f', '\xbf', '\xc1', '\x61', '\xff'}) {
    EXPECT_THAT(cbor_error(std::string(kMany, c)), AllOf(StartsWith("the file is damaged: "), Not("no error"))) << +c;
  }
}

TEST(Json, SyntaxErrorsTellTheOffsetInOneLine) {
  EXPECT_EQ(json_error(""), "the file is damaged: no JSON at byte 0");
  EXPECT_EQ(json_error("{\"a\": nul}"), "the file is damaged: no JSON at byte 9");
  EXPECT_EQ(json_error("[\"a\nb\"]"), "the file is damaged: no JSON at byte 3");
  EXPECT_EQ(json_error("[1] 2"), "the file is damaged: no JSON at byte 4");
  EXPECT_EQ(json_error("1e999"), "the file is damaged: its JSON has a number that is too large");
  EXPECT_EQ(cbor_error(""), "the file is damaged: its CBOR is cut off at byte 0");
  EXPECT_EQ(cbor_error("\x19\x01"), "the file is damaged: its CBOR is cut off at byte 2");
  EXPECT_EQ(cbor_error("\x82\x01\x63yz"), "the file is damaged: CBOR longer than the document at byte 2");
  EXPECT_EQ(cbor_error("\x01\x02"), "the file is damaged: something follows the CBOR document at byte 1");
  EXPECT_EQ(cbor_error("\xa1\x01\x02"), "the file is damaged: no CBOR at byte 1") << "a key that is not text";
  EXPECT_EQ(cbor_error("\xc2\x41\x01"), "the file is damaged: CBOR of an unknown kind at byte 0") << "a tag";
  EXPECT_EQ(cbor_error("\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
            "the file is damaged: CBOR longer than the document at byte 0");
}

TEST(Json, QuotedTextIsOneShortLine) {
  EXPECT_EQ(json_quoted("conv1.weight"), "\"conv1.weight\"");
  EXPECT_EQ(json_quoted("a\nb\"\xff"), "\"a\\nb\\\"\xef\xbf\xbd\"");
  EXPECT_LT(json_quoted(std::string(10'000, 'x')).size(), 210u);
}

TEST(Json, BytesThatAreNotUtf8AreReplacedOrNamed) {
  EXPECT_EQ(json_text({{"caf\xe9", 1}}), "{\"caf\xef\xbf\xbd\":1}");
  EXPECT_EQ(json_text({1, 2}, 1), "[\n 1,\n 2\n]");
  EXPECT_EQ(utf8_text("caf\xe9 \xc3\xa9\xff"), "caf\\xE9 \xc3\xa9\\xFF");
  EXPECT_EQ(utf8_text("\xed\xa0\x80\xf0\x9f\x98\x80\xf0\x9f"), "\\xED\\xA0\\x80\xf0\x9f\x98\x80\\xF0\\x9F");
  EXPECT_EQ(utf8_text(""), "");
}

TEST(Json, OtherTypesAreDataErrors) {
  const json document = {{"a", "text"}};
  EXPECT_EQ(read_json("the file", [&] { return document.at("a").get<std::string>(); }), "text");
  for (const auto& read :
       std::vector<std::function<void()>>{[&] { (void)document.at("a").get<int>(); }, [&] { (void)document.at("b"); },
                                          [&] { (void)document.at("a").at(0); }}) {
    EXPECT_THAT(error_of([&] { read_json("the file", read); }),
                StartsWith("the file does not have the expected form: "));
  }
  EXPECT_EQ(error_of([&] { read_json("the file", [&] { (void)document.at("b"); }); }),
            "the file does not have the expected form: key 'b' not found");
}

}  // namespace
}  // namespace mn
