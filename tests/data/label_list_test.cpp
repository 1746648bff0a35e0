// Lists of images with labels, as lines and as CSV.
#include "data/label_list.hpp"

#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "data/csv.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

class LabelList : public testing::Test {
 protected:
  /// "LINE KEY=LABEL" of each image of a list of this name and text.
  std::vector<std::string> listed(const std::string& text, const ListOptions& options = {},
                                  const std::string& name = "list.csv") {
    test::write_text(folder_.path() / name, text);
    std::vector<std::string> found;
    for_each_listed(folder_.path() / name, options, [&](const ListedImage& image) {
      found.push_back(std::to_string(image.line) + " " + image.key + "=" + std::to_string(image.label));
    });
    return found;
  }
  template <class Error = DataError>
  std::string error_of(const std::string& text, const ListOptions& options = {}, const std::string& name = "list.csv") {
    const std::string error = message_of<Error>([&] { (void)listed(text, options, name); });
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
    return error;
  }

  test::TemporaryFolder folder_;
};

TEST_F(LabelList, LinesAndCsvsAreTakenByTheFilesName) {
  EXPECT_THAT(listed("a b.jpg 3\n\nc,d.jpg\t4\n", {}, "list.txt"), ElementsAre("1 a b.jpg=3", "3 c,d.jpg=4"));
  EXPECT_THAT(listed("a b.jpg,3\r\n\r\nc.jpg, 4"), ElementsAre("1 a b.jpg=3", "3 c.jpg=4"));
  EXPECT_THAT(listed("a b.jpg\t3\n", {}, "LIST.TSV"), ElementsAre("1 a b.jpg=3"));
  EXPECT_THAT(listed("\"a\"\"b\";3\n\"c\nd\";4\n\"e\";5\n"), ElementsAre("1 a\"b=3", "2 c\nd=4", "4 e=5"));
  EXPECT_THAT(listed("\"a;b;c\",3\n"), ElementsAre("1 a;b;c=3"));
  EXPECT_THAT(listed("\xef\xbb\xbf"
                     "a,3\n"),
              ElementsAre("1 a=3"));
  EXPECT_THAT(listed(""), ElementsAre());
}

TEST_F(LabelList, TheFirstRowOfACsvIsAHeaderUnlessItHasALabelOrAnImage) {
  EXPECT_THAT(listed("\xef\xbb\xbf"
                     "image,class\na,1\n"),
              ElementsAre("2 a=1"));
  EXPECT_THAT(listed("image,cat\nb,1\nc,dog\n", {.class_names = {"cat", "dog"}}),
              ElementsAre("1 image=0", "2 b=1", "3 c=1"));
  EXPECT_THAT(listed("w,label,path\n9,1,a\n", {.columns = "path,label"}), ElementsAre("2 a=1"));
  EXPECT_THAT(listed(" path , label \na,1\n", {.columns = "path,label"}), ElementsAre("2 a=1"));
}

TEST_F(LabelList, AFirstRowWithAnImageButWithoutALabelIsNoHeader) {
  test::write_text(folder_.path() / "unnamed", "an image without an extension");
  for (const std::string row : {"absent/A.JPG,-1", "unnamed,1.5", "unnamed,", "unnamed,O"}) {
    EXPECT_THAT(error_of(row + "\nb,0\n"), HasSubstr("list.csv:1: \"" + row.substr(row.find(',') + 1) +
                                                     "\" is not a label (a whole number from 0 to 2147483647)"));
  }
  EXPECT_THAT(error_of("a.png,dgo\nb.png,dog\n", {.class_names = {"dog"}}), HasSubstr("list.csv:1: \"dgo\" is not"));
}

TEST_F(LabelList, ErrorsNameTheLine) {
  EXPECT_THAT(error_of("path,label\na,1\nb,dog\n"),
              EndsWith("list.csv:3: \"dog\" is not a label (a whole number from 0 to 2147483647): --classes FILE "
                       "numbers names"));
  EXPECT_THAT(error_of("path,label\na,dog\nb,cow\n", {.class_names = {"dog"}}),
              HasSubstr("list.csv:3: \"cow\" is not a label (a whole number from 0 to 2147483647), nor a class of"));
  EXPECT_THAT(error_of("a,1\nb,2147483648\n"), HasSubstr("list.csv:2: \"2147483648\" is not a label"));
  EXPECT_THAT(error_of("a,1\nb,-1\n"), HasSubstr("list.csv:2: \"-1\" is not a label"));
  EXPECT_THAT(error_of("a,1\nb\n"), EndsWith("list.csv:2: a row of 1 cells, but the first row has 2"));
  EXPECT_THAT(error_of("a,1\n,1\n"), EndsWith("list.csv:2: the path is empty"));
  EXPECT_THAT(error_of("w,h,path,label\n9,9,a,1\n"),
              EndsWith("list.csv:1: 4 columns (w, h, path, label): choose path and label with --columns PATH,LABEL"));
  EXPECT_THAT(error_of("w,h,path\n", {.columns = "path,label"}),
              EndsWith("list.csv:1: there is no column \"label\", but w, h, path: choose with --columns PATH,LABEL"));
  EXPECT_THAT(error_of("a,1\n\"b,1\nc,1\n"), EndsWith("list.csv:2: a quote is not closed"));
  EXPECT_THAT(error_of("a,1\n\"b\"c,1\n"), EndsWith("list.csv:2: text follows the closing quote of \"b\""));
  EXPECT_THAT(error_of("\xFF\xFE\x4B\x6D"), HasSubstr("list.csv is not UTF-8 text but text in UTF-16"));
  EXPECT_THAT(error_of("a,1\n", {}, "list.txt"), HasSubstr("list.txt:1: \"a,1\" is not of the form \"path label\""));
  EXPECT_THAT(error_of<UsageError>("a,1\n", {.columns = "path"}), HasSubstr("is not of the form PATH,LABEL"));
  EXPECT_THAT(error_of<UsageError>("a 1\n", {.columns = "path,label"}, "list.txt"),
              HasSubstr("--columns is for a list NAME.csv or NAME.tsv, not "));
  EXPECT_THAT(message_of<DataError>([&] { for_each_listed(folder_.path() / "no.csv", {}, {}); }),
              HasSubstr("cannot open"));
}

}  // namespace
}  // namespace mn::data
