#include "data/commands.hpp"

#include <mn/core/error.hpp>
#include <mn/core/manual.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

using Names = std::vector<std::string>;

struct OptionRow {
  Names commands;
  /// Adds this row's options. Their help texts begin with `whose`: "" or "images: ".
  void (*add)(Options& options, Settings& settings, const std::string& whose);
};

void add_image_options(Options& options, Settings& settings, const std::string& whose) {
  options.add("classes", settings.classes, "FILE",
              whose + "names of the classes, one a line, label 0 first (a folder's are its folders' names)");
  options.add("resize", settings.resize,
              whose + "pixels of the short side: larger images are resized and stored as JPEG; 0: no resizing", 0,
              65500);
  options.add("on-error", settings.on_error, "WHAT", whose + "an invalid image ends the conversion, or is left out",
              {"fail", "skip"});
  options.add("check", settings.check, "HOW", whose + "decode every image once, or read only headers",
              {"decode", "header"});
}

void add_token_options(Options& options, Settings& settings, const std::string& whose) {
  options.add("vocabulary", settings.tokens.vocabulary, "KIND",
              whose + "what a token is: bpe (byte pairs), characters or bytes", {"bpe", "characters", "bytes"});
  options.add("vocabulary-size", settings.tokens.vocabulary_size,
              whose + "tokens of a vocabulary of byte pairs, at most", 256, 1 << 20);
  options.add("vocabulary-file", settings.tokens.vocabulary_file, "FILE",
              whose + "a vocabulary.json, tokenizer.json or .tiktoken to use, instead of making one from the texts");
  options.add("encoding", settings.encoding, "WHAT", whose + "the texts' encoding: UTF-8, or any bytes",
              {"utf-8", "any"});
  options.add("context", settings.tokens.context, whose + "tokens of a sample, besides the token that follows", 1,
              1 << 20);
  options.add("val-part", settings.tokens.val_part,
              whose + "part of the documents for OUT/val, or of each of a few texts; 0: none", 0, 0.99);
  options.add_flag("pack", settings.tokens.pack, whose + "samples of whole documents, which training keeps apart");
  options.add("chat", settings.tokens.chat, "TEMPLATE", whose + ".jsonl holds chats, to be written by this template",
              {"none", "chatml", "llama3", "plain"});
  options.add_flag("mask-prompt", settings.tokens.mask_prompt,
                   whose + "the loss counts answers of chats only; needs --chat and --pack");
}

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> kRows = {
      {{"idx", "images", "tar", "npy", "npz", "cifar", "tokens", "index", "extract"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("out", settings.out, "DIR", whose + "output folder; extract: output file");
       }},
      {{"idx", "images", "tar", "npy", "npz", "index"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("split", settings.split, "NAME", whose + "name of the split, if the command makes only one");
       }},
      {{"idx", "images", "tar", "npy", "npz", "cifar", "tokens"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("shard-mb", settings.shard_mb, whose + "MiB of samples in a shard", 1, 1 << 20);
       }},
      {{"idx", "images", "tar", "npy", "npz", "cifar", "tokens", "verify"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("threads", settings.threads,
                     whose + "threads that read, check and write; each holds one shard in memory", 1, 4096);
       }},
      {{"images"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("columns", settings.columns, "PATH,LABEL",
                     whose + "names of two columns of a CSV that lists images, if it has more than two");
         options.add("seed", settings.seed, whose + "seed of the shuffle", 0);
         options.add_flag("shuffle", settings.shuffle, whose + "shuffle once, over all shards");
       }},
      {{"images", "tar"}, add_image_options},
      {{"tar"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add(
             "image-member", settings.image_member, "MEMBER",
             whose + "the image, such as rgb.png: the member's name after the sample's (default: .jpg, .png, …)");
         options.add("label-member", settings.label_member, "MEMBER[:KEY]",
                     whose + "the label or class, as text, or under a key of JSON, such as json:label");
       }},
      {{"npz"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add("x", settings.x, "NAME", whose + "the array of samples; its first index counts samples");
         options.add("y", settings.y, "NAME", whose + "the array of labels");
       }},
      {{"tokens"}, add_token_options},
      {{"index"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add_list("class-field", settings.class_fields, "NAME",
                          whose + "a field with classes, such as the label; mnshard reads the whole field once");
         options.add("unwritten", settings.unwritten, "WHAT",
                     whose + "a field never written in a file is an error, or reads as the fill value",
                     {"fail", "fill"});
       }},
      {{"index", "extract", "tokens"},
       [](Options& options, Settings& settings, const std::string& whose) {
         options.add_list(
             "field", settings.fields, "NAME",
             whose +
                 "index: NAME=/PATH/IN/FILE, once for each field; extract: the field to write (default: the first); "
                 "tokens: the field of .jsonl or column of .parquet with the text (text, or messages of a chat)");
       }},
  };
  return kRows;
}

std::string call_of(const Command& command, const CommandForm& form) {
  return std::string("mnshard ") + command.name + " " + form.arguments;
}

std::string form_lines(const Command& command, const std::string& indent) {
  constexpr std::size_t kColumn = 43;
  std::string text;
  for (const CommandForm& form : command.forms) {
    std::string line = call_of(command, form);
    line.resize(std::max(line.size() + 1, kColumn), ' ');
    text += (text.empty() ? "" : "\n") + indent + line + form.purpose;
  }
  return text;
}

std::string usage_of(const Command* command) {
  if (command != nullptr) return form_lines(*command, "");
  std::string text = "mnshard COMMAND … [options]: data in shards (HDF5 files that any rank reads by itself)";
  for (const Command& each : all_commands()) text += "\n" + form_lines(each, "  ");
  return text + "\n`mnshard COMMAND --help` lists the options of one command.";
}

}  // namespace

const Command* find_command(const std::string& name) {
  const auto command = std::ranges::find(all_commands(), name, &Command::name);
  return command == all_commands().end() ? nullptr : &*command;
}

const Command& checked_command(const std::string& name, std::size_t arguments) {
  const Command* command = find_command(name);
  if (command == nullptr) {
    Names known;
    for (const Command& each : all_commands()) known.emplace_back(each.name);
    throw UsageError("unknown command \"" + name + "\": mnshard knows " + join(known));
  }
  if (arguments < command->least || arguments > command->most) {
    const auto call = [&](const CommandForm& form) { return call_of(*command, form); };
    throw UsageError("usage: " + join(command->forms, " | ", call));
  }
  return *command;
}

void check_options_of(const Command& command, std::span<const char* const> words) {
  Settings ignored;
  const Options own = options_for(&command, ignored);
  for (const std::string_view word : words) {
    if (!word.starts_with("--")) continue;
    const std::string name(word.substr(2, word.find('=') - 2));
    if (own.has(name)) continue;
    for (const OptionRow& row : option_rows()) {
      Options others("");
      row.add(others, ignored, "");
      if (!others.has(name)) continue;
      throw UsageError("--" + name + " is an option of mnshard " + join(row.commands) + ", not of " + command.name);
    }
  }
}

Options options_for(const Command* command, Settings& settings) {
  Options options(usage_of(command));
  for (const OptionRow& row : option_rows()) {
    if (command == nullptr) {
      row.add(options, settings, join(row.commands) + ": ");
    } else if (std::ranges::find(row.commands, command->name) != row.commands.end()) {
      row.add(options, settings, "");
    }
  }
  return options;
}

std::string manual_page() {
  std::string page =
      ".TH MNSHARD 1\n.SH NAME\nmnshard \\- make, describe and check datasets in shards\n.SH SYNOPSIS\n"
      "mnshard COMMAND ... [options]\n.SH DESCRIPTION\nA shard is an HDF5 file of samples that any rank of a job reads "
      "by itself; a folder of shards with its manifest.h5 is a dataset. An interrupted conversion is resumable: run "
      "the same command again. Under a launcher (srun, mpiexec), its processes convert together.\n.SH COMMANDS\n";
  for (const Command& command : all_commands()) {
    for (const CommandForm& form : command.forms) page += manual_item(call_of(command, form), form.purpose);
  }
  Settings settings;
  page += ".SH OPTIONS\n" + options_for(nullptr, settings).manual({"threads"}) + ".SH EXIT STATUS\n";
  return page + manual_item("0", "all is well") +
         manual_item("1", "data that is absent, damaged or cannot be written") + manual_item("2", "usage") +
         ".SH ENVIRONMENT\n" + manual_item("MN_DATA", "folder in which datasets are looked for by name") +
         ".SH EXAMPLES\n.nf\nmnshard images ILSVRC2012/train \\-\\-out data/imagenet/train\n"
         "mnshard verify data/imagenet/train\n.fi\n";
}

}  // namespace mn::data
