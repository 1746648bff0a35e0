// Faults of a batch script, each planted alone: a single line, with its number. And the words of shell scripts.
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/environment.hpp>
#include <mn/core/file.hpp>

#include "launcher/batch/dry_run.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Line numbers: --nodes 2, --ntasks-per-node 3, --gpus-per-node 4, --time 5, --output 6, --signal 7, --requeue 8,
// --open-mode 9, export 10, srun 11.
constexpr const char* kScript =
    "#!/bin/sh\n"
    "#SBATCH --nodes=2-4\n"
    "#SBATCH --ntasks-per-node=2\n"
    "#SBATCH --gpus-per-node=h100:2 --cpus-per-task 8 # cores\n"
    "#SBATCH -t 1-12:00:00\n"
    "#SBATCH --output='out-%j.txt'\n"
    "#SBATCH --signal=USR1@60\n"
    "#SBATCH --requeue\n"
    "#SBATCH --open-mode=append\n"
    "SRUN_CPUS_PER_TASK=8; export SRUN_CPUS_PER_TASK\n"
    "srun -K --mpi=pmix \\\n"
    "  mnlaunch /bin/sh -c 'echo \"$RANK\"' >log 2>&1\n";

struct PlantedInScript {
  const char* name;
  const char* from;  ///< replaced by `to`; empty: the whole script is
  const char* to;
  int line;
  const char* what;
};

const PlantedInScript kPlantedInScript[] = {
    {"no_interpreter_line", "#!/bin/sh\n", "\n", 1, "does not begin with #!"},
    {"missing_interpreter", "#!/bin/sh", "#!/no/sh", 1, "/no/sh, is not on this node"},
    {"no_interpreter_of_env", "#!/bin/sh", "#!/usr/bin/env no-such-shell", 1, "no-such-shell, is not on this node"},
    {"no_end_of_if", "SRUN_CPUS", "if true; then\nSRUN_CPUS", 14, "unexpected"},
    {"windows", "--requeue\n", "--requeue\r\n", 1, "as on Windows"},
    {"empty", "", "", 0, "the script is empty"},
    {"misspelled_option", "--nodes=2-4", "--node=2-4", 2, "there is no option --node"},
    {"unknown_letter", "-t 1-12", "-y 1-12", 5, "there is no option -y"},
    {"word_without_dashes", "--requeue", "requeue", 8, "\"requeue\" is no option"},
    {"option_without_value", "--output='out-%j.txt'", "--output", 6, "--output has no value"},
    {"wrong_range", "2-4", "4-2", 2, "--nodes is \"4-2\""},
    {"wrong_number", "--ntasks-per-node=2", "--ntasks-per-node=two", 3, "--ntasks-per-node is \"two\""},
    {"wrong_time", "1-12:00:00", "12h", 5, "--time is \"12h\""},
    {"time_with_four_numbers", "1-12:00:00", "1:12:00:00", 5, "--time is"},
    {"wrong_size", "--requeue", "--requeue --mem=64GiB", 8, "--mem is \"64GiB\""},
    {"wrong_signal", "USR1@60", "USR3@60", 7, "--signal is \"USR3@60\""},
    {"indented_option", "#SBATCH --requeue", "  #SBATCH --requeue", 8, "a comment, which sbatch does not read"},
    {"value_of_a_flag", "--requeue", "--requeue=1", 8, "--requeue takes no value"},
    {"no_tasks", "--ntasks-per-node=2", "--ntasks-per-node=2 --ntasks=0", 3, "--ntasks is \"0\""},
    {"wrong_mode", "=append", "=add", 9, "--open-mode is \"add\""},
    {"wrong_resource", "--requeue", "--requeue --gres=gpu:a:2:3", 8, "--gres is"},
    {"wrong_hint", "--requeue", "--requeue --hint=multithreads", 8, "--hint is"},
    {"wrong_exclusive", "--requeue", "--requeue --exclusive=yes", 8, "--exclusive is"},
    {"wrong_switches", "--requeue", "--requeue --switches=one", 8, "--switches is"},
    {"comment_like_an_option", "#SBATCH --requeue", "# SBATCH --no-requeue\n#SBATCH --requeue", 8, "this is a comment"},
    {"option_after_a_command", "SRUN_CPUS", "true\n#SBATCH --mem=4G\nSRUN_CPUS", 11, "after the first command"},
    {"variable_in_an_option", "out-%j.txt'", "'$HOME/x", 6, "--output has a variable"},
    {"no_folder_of_output", "out-%j", "logs/out-%j", 6, "does not exist"},
    {"no_folder", "--requeue", "--requeue --chdir=/no/such", 8, "the folder /no/such does not exist"},
    {"signal_without_requeue", "#SBATCH --requeue\n", "# none\n", 7, "--signal without --requeue"},
    {"signal_to_the_script", "=USR1@60", "=B:USR1@60", 7, "has no trap"},
    {"output_emptied", "=append", "=truncate", 8, "empties its output file"},
    {"more_nodes_than_tasks", "--ntasks-per-node=2", "--ntasks=1 --ntasks-per-node=2", 3, "1 tasks cannot use 2 nodes"},
    {"no_wait", "-K ", "", 11, "neither -K nor --wait"},
    {"wait_without_end", "-K ", "--wait=0 ", 11, "neither -K nor --wait"},
    {"kill_of_zero", "srun -K ", "SLURM_KILL_BAD_EXIT=0 srun ", 11, "neither -K nor --wait"},
    {"value_of_K_behind_a_blank", "-K --mpi=pmix \\\n ", "--mpi=pmix -K 1", 11, "starts a program \"1\""},
    {"srun_alone", "mnlaunch /bin/sh -c 'echo \"$RANK\"'", "", 11, "srun starts no program"},
    {"mpirun_alone", "SRUN_CPUS", "mpirun\nSRUN_CPUS", 10, "mpirun starts no program"},
    {"cores_lost", "SRUN_CPUS_PER_TASK=8; export SRUN_CPUS_PER_TASK", "true", 11, "does not take --cpus-per-task"},
    {"too_many_ranks_for_gpus", "--ntasks-per-node=2", "--ntasks-per-node=4", 11, "4 ranks a node and 2 GPUs"},
    {"idle_gpus", "h100:2", "h100:8", 11, "GPUs stay idle"},
    {"gpus_per_task", "--gpus-per-node=h100:2", "--gpus-per-task=1", 11, "hides the ranks' GPUs"},
    {"step_larger_than_job", "srun -K", "srun -K -n 64", 11, "--ntasks=64, more than the job's 8"},
    {"mnlaunch_before_srun", "srun -K --mpi=pmix \\\n  mnlaunch", "mnlaunch srun -K mnlaunch", 11,
     "before the launcher"},
    {"wrong_option_of_mnlaunch", "mnlaunch /bin", "mnlaunch --bnid auto /bin", 11, "did you mean --bind?"},
    {"no_mnlaunch_there", "  mnlaunch", "  ./bin/mnlaunch", 11, "bin/mnlaunch does not exist"},
    {"no_program", "/bin/sh -c", "jobs/no-such -c", 11, "\"jobs/no-such\" was not found"},
    {"program_not_executable", "/bin/sh -c", "/etc/passwd -c", 11, "/etc/passwd"},
    {"no_python_script", "/bin/sh -c 'echo \"$RANK\"'", "sh train.sh", 11, "script \"train.sh\" was not found"},
    {"torchrun", "/bin/sh -c", "torchrun -c", 11, "torchrun under mnlaunch"},
    {"nothing_starts_ranks", "srun -K --mpi=pmix \\\n  mnlaunch /bin/sh -c", "exec python3", 0, "itself runs once"},
    {"program_only_named_by_echo", "srun -K --mpi=pmix \\\n  mnlaunch /bin/sh -c", "echo gone; srun -K mnlaunch ./gone",
     11, "\"./gone\" was not found"},
    {"program_beside_a_file", "srun -K --mpi=pmix \\\n  mnlaunch /bin/sh -c",
     "head f.yaml; srun -K mnlaunch ./no f.yaml", 11, "\"./no\" was not found"},
    {"open_quote", "--output='out-%j.txt'", "--output='out-%j.txt", 6, "a quote is open"},
    {"output_is_a_folder", "out-%j.txt", ".", 6, ". is a folder"},
    {"dash_of_an_editor", "--requeue", "--requeue -\xE2\x80\x93nodes=2", 8, "no option -\xE2\x80\x93nodes=2"},
    {"option_of_srun_alone", "--requeue", "--requeue -I", 8, "there is no option -I"},
};

Variables variables(const char* name, const char* value) {
  Variables all;
  all.set(name, value);
  return all;
}

class BatchScriptTest : public ::testing::TestWithParam<PlantedInScript> {
 protected:
  LineFindings check(const std::string& text, const std::vector<std::string>& arguments = {}) {
    const auto file = folder_.path() / "job.sbatch";
    std::ofstream(file) << text;
    const BatchStart start{arguments, folder_.path(), variables("PATH", "/usr/bin:/bin")};
    return check_batch_script(file, start);
  }
  static std::string text_of(const LineFindings& findings) {
    std::string text;
    for (const auto& [line, what, remedy] : findings) text += std::to_string(line) + ": " + what + "; " + remedy + "\n";
    return text;
  }
  const test::TemporaryFolder folder_;
};

TEST_P(BatchScriptTest, IsTheOnlyLine) {
  const auto& [name, from, to, line, what] = GetParam();
  std::string script = kScript;
  const std::string old = from;
  const std::size_t at = script.find(old);
  ASSERT_NE(at, std::string::npos);
  script = old.empty() ? std::string(to) : script.replace(at, old.size(), to);
  const auto findings = check(script);
  ASSERT_EQ(findings.size(), 1u) << text_of(findings);
  EXPECT_EQ(findings[0].line, line) << text_of(findings);
  EXPECT_THAT(findings[0].what + "; " + findings[0].remedy, HasSubstr(what));
  EXPECT_NE(findings[0].remedy, "");
}

INSTANTIATE_TEST_SUITE_P(Planted, BatchScriptTest, ::testing::ValuesIn(kPlantedInScript),
                         [](const auto& test) { return std::string(test.param.name); });

using SoundBatchScriptTest = BatchScriptTest;

TEST_F(SoundBatchScriptTest, HasNoFindings) {
  EXPECT_EQ(text_of(check(kScript)), "");
  EXPECT_EQ(text_of(check("#!/bin/bash\n#SBATCH --gres=gpu:4 -N1 -n4\nmodule load x\ncd work\n"
                          "srun --wait=60 --kill-on-bad-exit=0 mnlaunch fit --epoch 2\n")),
            "");
  EXPECT_EQ(text_of(check("#!/bin/bash\n#SBATCH -n 2\nmnlaunch supervise -- srun mnlaunch \"$1\"\n", {"/bin/true"})),
            "");
}

TEST_F(SoundBatchScriptTest, WhatOnlyARunCouldTellIsNoFinding) {
  std::ofstream(folder_.path() / "train.py") << "\n";
  std::ofstream(folder_.path() / "run.sh") << "#!/bin/sh\n";
  for (const std::string commands : {
           "srun -K mnlaunch sh $SLURM_SUBMIT_DIR/train.py",
           "DIR=$(dirname \"$0\")\nsrun -K mnlaunch sh $DIR/train.py",
           "srun -K mnlaunch ~/bin/program",
           "srun -K mnlaunch sh t{rain,est}.py",
           "srun -K --chdir=/tmp mnlaunch sh only.sh",
           "timeout 3600 srun -K mnlaunch sh train.py",
           "LAUNCH=\"srun -K mnlaunch\"\n$LAUNCH sh train.py",
           "bash run.sh",
           "./run.sh",
           "#SBATCH hetjob\n#SBATCH -N 1 -n 9\nsrun -K mnlaunch sh train.py",
           "   # a comment\n#SBATCH --time=5\nsrun -K mnlaunch sh train.py",
           "srun -ulK mnlaunch sh train.py",
           "A=\"--check off\"; srun -K mnlaunch $A sh train.py",
           "sbcast program /tmp/no-such-program\nsrun -K mnlaunch /tmp/no-such-program",
           "cat > made.sh <<END\n#SBATCH --nothing\nEND\nsrun -K mnlaunch sh made.sh",
           "#SBATCH --job-name a#b\n#SBATCH --gres=gpu:h100:2(S:0-1),nvme:1\nsrun -K mnlaunch sh train.py",
           "#SBATCH --ntasks-per-gpu=2 --gpus=4\nsrun -K mnlaunch sh train.py",
           "#SBATCH --gpus-per-node=4\nmpiexec.hydra -n 8 -ppn 4 mnlaunch sh train.py",
           "srun --mpi=list\nsrun -K mnlaunch sh train.py",
           "srun -n1 python3 train.py",
           "srun -l \"${ARGS[@]}\" torchrun a.py",
           "O=\"-K --wait=60\"; srun $O mnlaunch sh train.py",
           "#SBATCH --gpus-per-node=2\nsrun -K --ntasks-per-node=$SLURM_NTASKS_PER_NODE mnlaunch sh train.py",
           "#SBATCH --gpus-per-node=2\nsrun -K -N1 -n1 --gpus=1 mnlaunch sh train.py & wait",
           "srun -K --container-image=x mnlaunch python3 /workspace/train.py",
           "srun -K --environment x mnlaunch python3 /workspace/train.py",
           "#SBATCH --gpus-per-node=2080ti:2 --environment=x --container-image=y\nsrun -K mnlaunch sh train.py",
           "#SBATCH --open-mode=a --time=-1 --exclusive=exclusive --job-name= --hint=nomultithread,compute_bound\n:",
           "N=${N:-\"8\"}; srun -K -n $N mnlaunch sh train.py",
           "SRUN=(srun -K)\nL=(\n mpirun\n -np 8\n)\n\"${SRUN[@]}\" mnlaunch sh train.py",
           "case $1 in\n srun) L=a;;\n mpirun|mpiexec) L=b;;\n \"mnlaunch\") ;;\nesac\nsrun -K mnlaunch sh train.py",
           "case $1 in srun) L=a;; esac\nsrun -K mnlaunch sh train.py",
           "srun() { command srun -K \"$@\"; }\nfunction mpirun { :; }\nsrun mnlaunch sh train.py",
           "timeout 9 echo srun\nsrun -K mnlaunch sh train.py",
           "command -v srun >/dev/null || exit 1\nsrun -K mnlaunch sh train.py",
           "declare -x SLURM_KILL_BAD_EXIT=1\nsrun mnlaunch sh train.py",
           "shopt -s extglob\nls !(a)\nsrun -K mnlaunch sh train.py",
           "N=2; [ $BIG ] && N=16; srun -K -n $N mnlaunch sh train.py",
           "N=2; if a; then N=16; fi; srun -K -n $N mnlaunch sh train.py",
           "N=8; ((N /= 4)); srun -K -n $N mnlaunch sh train.py",
           "N=8; read N <file; srun -K -n $N mnlaunch sh train.py",
           "srun -K mnlaunch --check $C sh train.py",
           "ibrun python3 train.py",
           "pdsh python3 train.py",
           "make\nsrun -K mnlaunch ./a.out",
           "git clone u code; srun -K mnlaunch sh code/train.sh",
           "./generate --out new.sh\nsrun -K mnlaunch sh new.sh",
           "echo exit >new.sh\nsrun -K mnlaunch sh new.sh",
           "micromamba activate x\nsrun -K mnlaunch program-of-x",
           "srun -n1 mnlaunch sh train.py",
           "#SBATCH --gres=gpu:2,gpumem:5\nsrun -K mnlaunch sh train.py",
           "#SBATCH --gpus-per-task=1 --gpu-bind=none\nsrun -K mnlaunch sh train.py",
           "srun -K -O -n16 mnlaunch sh train.py",
           "cat <<END\nsrun -K mnlaunch sh train.py",
           "[[ $x =~ ^(srun|mpirun)$ ]] && exit\nsrun -K mnlaunch sh train.py",
           "P=gone.py\nP[0]=train.py\nsrun -K mnlaunch sh $P",
           "PATH=\"$(pwd)/bin:$PATH\"\nsrun -K mnlaunch program-of-bin",
           "diff <(srun a) <(b) x\nsrun -K mnlaunch sh train.py",
           "python3 - <<EOF\n#SBATCH --nothing\nit's\nEOF\nsrun -K mnlaunch sh train.py",
       }) {
    EXPECT_EQ(text_of(check("#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2\n" + commands + "\n")), "") << commands;
  }
}

TEST_F(SoundBatchScriptTest, SlurmMayChooseTheNumberOfNodes) {
  EXPECT_EQ(text_of(check("#!/bin/bash\n#SBATCH -n 8 --gpus-per-node=4\nsrun -K mnlaunch true\n")), "");
  EXPECT_EQ(text_of(check("#!/bin/bash\n#SBATCH -n 8 --gpus=8 --gpus-per-node=4\nsrun -K mnlaunch true\n")), "");
}

TEST_F(SoundBatchScriptTest, LongValuesAreFindings) {
  const std::string script = "#!/bin/bash\n#SBATCH --mem=" + std::string(100000, '1') + "\nsrun -K mnlaunch true\n";
  EXPECT_THAT(text_of(check(script)), HasSubstr("2: --mem is \"1111"));
}

TEST_F(SoundBatchScriptTest, ArgumentsOfTheScriptReplaceItsParameters) {
  EXPECT_THAT(text_of(check("#!/bin/bash\n#SBATCH -n 2\nsrun -K mnlaunch \"$1\"\n", {"/no/such"})),
              HasSubstr("/no/such"));
}

TEST_F(SoundBatchScriptTest, ABinaryIsNoScript) {
  std::filesystem::copy_file(executable_path(), folder_.path() / "job.sbatch");
  const BatchStart start{{}, folder_.path(), Variables()};
  const auto findings = check_batch_script(folder_.path() / "job.sbatch", start);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].what, HasSubstr("a program, not a script"));
  EXPECT_THAT(check_batch_script(folder_.path() / "none", start)[0].what, HasSubstr("none"));
  EXPECT_THAT(check(std::string("#!/bin/sh\n\0\n", 12))[0].what, HasSubstr("NUL"));
}

TEST_F(SoundBatchScriptTest, ALibraryMayBeMissing) {
  std::string program = read_file(executable_path());
  const std::string library = "libhwloc.so";
  for (std::size_t at = 0; (at = program.find(library, at)) != std::string::npos; ++at) program[at] = 'L';
  const auto file = folder_.path() / "program";
  std::ofstream(file, std::ios::binary) << program;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_THAT(text_of(check("#!/bin/sh\n#SBATCH -n2\nsrun -K mnlaunch ./program\n")),
              HasSubstr("3: the dynamic loader does not find Libhwloc.so"));
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> all;
  for (auto& command : read_shell_script(text, {"one"}, variables("HOME", "/h")).commands) {
    for (auto& word : command.words) {
      std::ranges::replace(word, kUnknown, '?');
      all.push_back(word);
    }
    all.emplace_back("|");
  }
  return all;
}

TEST(ShellWordsTest, QuotesVariablesAndRedirections) {
  EXPECT_THAT(words_of("a 'b c' \"d $HOME\" e\\ f # g\n"), ElementsAre("a", "b c", "d /h", "e f", "|"));
  EXPECT_THAT(words_of("X=1 Y='2 3'\nsay $X${Y} ${Z:-4} ${Z} $(x; y) `z` \"$1\" $2"),
              ElementsAre("say", "12 3", "4", "?", "?", "?", "one", "?", "|"));
  EXPECT_THAT(words_of("a >f 2>&1 b <g; c && d | e &\n"), ElementsAre("a", "b", "|", "c", "|", "d", "|", "e", "|"));
  EXPECT_THAT(words_of("cat <<END x\nsrun no\nEND\nb\n"), ElementsAre("cat", "x", "|", "b", "|"));
  EXPECT_THAT(words_of("for x in 1 2; do if a; then b $x; fi; done"), ElementsAre("a", "|", "b", "?", "|"));
  EXPECT_THAT(words_of("a &&\nX=1; b $X"), ElementsAre("a", "|", "b", "?", "|"));
  EXPECT_THAT(words_of("a || b; X=1; b $X"), ElementsAre("a", "|", "b", "|", "b", "1", "|"));
  EXPECT_THAT(words_of("f() { X=1; }; (X=2); X+=3; b $X; f"), ElementsAre("b", "?", "|", "?", "|"));
  EXPECT_THAT(words_of("$("), ElementsAre("?", "|"));
  EXPECT_THAT(words_of("a 'b"), ElementsAre("a", "b", "|"));
  EXPECT_THAT(words_of("# only\n\n"), IsEmpty());
}

TEST(ShellWordsTest, NestedTextIsPassedAsAWhole) {
  const auto is_followed_by_b = [](const std::string& text) {
    const auto words = words_of(text + "\nb\n");
    return words.size() >= 2 && words[words.size() - 2] == "b" && words.back() == "|";
  };
  for (const std::string text : {
           "echo $'it\\'s'",
           "echo $'\"'",
           "(( x = 1 << 2 ))",
           "x=$(( 1 << 2 ))",
           "for ((i = 1 << 2; i < 8; ++i)); do a; done",
           "echo `echo \\`date\\``",
           "echo \"`echo it's`\"",
           "echo \"$(echo \"it's)\")\"",
           "echo $(echo ')')",
           "x=$( # it's a comment (\n  date\n)",
           "x=$(cat <<END\nit's \"odd\nEND\n)",
           "x=$(cat <<-'E F' | sort\n(\n\tE F\n)",
           "x=$(cat <<<word)",
           "echo \"${x:-it's}\" ${x:-'}'} ${x%\"}\"}",
           "cat <<A <<\\B\n'\nA\n\"\nB",
           "echo a#b # it's",
           "echo \"$'\"",
       }) {
    EXPECT_TRUE(is_followed_by_b(text)) << text;
  }
  std::string deep;
  for (int i = 0; i < 1000000; ++i) deep += "$(\"";
  EXPECT_THAT(words_of(deep), ElementsAre("?", "|"));
}

TEST(ShellWordsTest, CommentLinesAreOutsideOfDocuments) {
  EXPECT_THAT(read_shell_script("# a\nb # c\ncat <<END\n# d\nEND\n'\n# e'\n  # f", {}, {}).comment_lines,
              ElementsAre(1, 8));
}

bool is_right(const char* option, const char* value) { return check_values({{1, option, value}}).empty(); }

TEST(SlurmOptionsTest, ValuesHaveTheFormsOfSbatch) {
  for (const char* time : {"90", "90:30", "1:02:03", "2-1", "1-0:30", "1-0:0:1", "1-", "UNLIMITED", "infinite"})
    EXPECT_TRUE(is_right("time", time)) << time;
  for (const char* time : {"1h", "1:2:3:4", "-2", "1.5", ":"}) EXPECT_FALSE(is_right("time", time)) << time;
  for (const char* nodes : {"2", "2-4", "4-4", "2,4-8:2"}) EXPECT_TRUE(is_right("nodes", nodes)) << nodes;
  for (const char* nodes : {"0", "2-", "4-2", "two"}) EXPECT_FALSE(is_right("nodes", nodes)) << nodes;
  for (const char* gpus : {"4", "a100:4", "a100", "a100:2,h100:2", "1080ti:2"})
    EXPECT_TRUE(is_right("gpus", gpus)) << gpus;
  for (const char* gpus : {"-1", "a100:", ":4", "a100:b"}) EXPECT_FALSE(is_right("gpus", gpus)) << gpus;
  for (const char* signal : {"USR1", "SIGTERM@60", "B:10@5", "R:USR2", "65", "USR1@"})
    EXPECT_TRUE(is_right("signal", signal)) << signal;
  for (const char* signal : {"USR3", "0", "X:USR1", "USR1@1m"}) EXPECT_FALSE(is_right("signal", signal)) << signal;
  EXPECT_EQ(gpu_count("gpu:a100:4"), 4);
  EXPECT_EQ(gpu_count("a100:2,h100:3"), 5);
  EXPECT_EQ(gpu_count("gpu"), 1);
}

TEST(SlurmOptionsTest, WordsHaveNeitherVariablesNorOperators) {
  EXPECT_EQ(option_words("-J \"a"), std::nullopt);
  EXPECT_THAT(*option_words(" -C [a|b]&(c;d) --comment='x $1' \"y #\" # end"),
              ElementsAre("-C", "[a|b]&(c;d)", "--comment=x $1", "y #"));
}

}  // namespace
}  // namespace mn::launcher
