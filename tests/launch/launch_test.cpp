// SPDX-License-Identifier: Apache-2.0
// The words of "trainer launch", and why an attempt has ended.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <future>
#include <optional>

#include "base/exit_codes.h"
#include "base/host.h"
#include "comm/watch_link.h"
#include "launch/cause.h"
#include "launch/hosts.h"
#include "launch/options.h"
#include "launch/process.h"
#include "tutti/error.h"

namespace tutti::launch {
namespace {

TEST(LaunchOptions, WordsOfTheTrainerStayAsTheyAre) {
  const Options o = parse({"-n", "4", "--restarts", "configFile=a", "--check", "a=[b=--c=d]", "--own=1"});
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.restarts, Options::unlimited);
  EXPECT_THAT(o.arguments, testing::ElementsAre("configFile=a", "--check", "a=[b=--c=d]", "--own=1"));
}

TEST(LaunchOptions, OwnWordsMayFollowTheConfiguration) {
  const Options o = parse({"configFile=a", "-n", "4", "b=1", "--restarts", "--hosts=h:4", "--min-ranks", "2"});
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.restarts, Options::unlimited);
  EXPECT_EQ(to_string(o.hosts), "h:4");
  EXPECT_EQ(o.min_ranks, 2);
  EXPECT_THAT(o.arguments, testing::ElementsAre("configFile=a", "b=1"));
  EXPECT_TRUE(parse({"configFile=a", "--help"}).help);
  EXPECT_THAT(parse({"-n", "2", "export", "m", "--onnx", "f", "--help"}).arguments,
              testing::ElementsAre("export", "m", "--onnx", "f", "--help"));
}

TEST(LaunchOptions, NumbersMayFollowOrBeInline) {
  EXPECT_EQ(parse({"--restarts", "3", "c"}).restarts, 3);
  EXPECT_EQ(parse({"--restarts=3", "c"}).restarts, 3);
  EXPECT_EQ(parse({"c"}).restarts, 0);
}

TEST(LaunchOptions, HostsGiveTheNumberOfRanks) {
  const Options o = parse({"--hosts", "a:4,b", "c"});
  EXPECT_EQ(o.ranks, 5);
  EXPECT_EQ(to_string(o.hosts), "a:4,b:1");
}

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(LaunchOptions, EmptyValuesAreNone) {
  for (const char* word : {"--hosts=", "--hostfile=", "--min-ranks=", "--mpiexec="})
    EXPECT_THAT(error_of({word, "-n", "2", "c"}), testing::HasSubstr("needs a value\nfix: ")) << word;
  EXPECT_NE(error_of({"--restarts=", "3", "c"}), "");
  EXPECT_THAT(error_of({"--hosts", "-n", "2", "c"}), testing::HasSubstr("a host without a name"));
}

TEST(LaunchOptions, FlagsOfTheTrainerMayBeAnywhere) {
  EXPECT_THAT(parse({"--check", "-n", "2", "-v", "configFile=a"}, true).arguments,
              testing::ElementsAre("--check", "-v", "configFile=a"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--write-under", "d", "-n", "2", "configFile=a"}, {"--write-under=d", "configFile=a"}})
    EXPECT_THAT(parse(words, true).arguments, testing::ElementsAre("--write-under", "d", "configFile=a"));
}

TEST(LaunchOptions, BlanksAroundHostsAreNotOfTheirNames) {
  EXPECT_EQ(to_string(parse_hosts("a:4, b : 2 ,c ")), "a:4,b:2,c:1");
  EXPECT_THAT(error_of({"--hosts", "a:1, ", "c"}), testing::HasSubstr("a host without a name"));
  EXPECT_THAT(error_of({"--hosts", "a:1 b:1", "c"}),
              testing::EndsWith("'a:1 b:1' is no name of a host: it has a blank inside\n"
                                "fix: --hosts node1:4,node2:4"));
}

TEST(LaunchOptions, OtherCommandsSpeakForThemselves) {
  EXPECT_EQ(in_words_of("plan", error_of({"-n"})), "plan: -n needs a value\nfix: trainer plan --help");
  EXPECT_EQ(in_words_of("plan", error_of({})),
            "plan: there is nothing to start\nfix: trainer plan -n 4 configFile=FILE");
  EXPECT_EQ(in_words_of("plan", "'trainer launch' of the user"), "'trainer launch' of the user");
  EXPECT_TRUE(parse_words({"-n", "2"}).arguments.empty());
}

TEST(LaunchOptions, FixesAreWhatCanBeWritten) {
  EXPECT_THAT(error_of({"--hosts", "a:0", "c"}),
              testing::EndsWith("takes a number, 1 or more, not '0'\nfix: --hosts node1:4,node2:4"));
}

class Hostfile : public testing::Test {
 protected:
  ~Hostfile() override { std::remove(path_.c_str()); }
  std::vector<Host> read(const std::string& text) const {
    std::ofstream(path_) << text;
    return read_hostfile(path_);
  }
  std::string error(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  }
  std::string path_ = testing::TempDir() + "hosts" + std::to_string(getpid());
};

TEST_F(Hostfile, SlotsAreReadHoweverTheyAreWritten) {
  EXPECT_EQ(to_string(read("a slots = 2 # two\n\nb slots =3 max_slots=8\nc slots= 4 max-slots = 8\nd:5\ne\n")),
            "a:2,b:3,c:4,d:5,e:1");
}

TEST_F(Hostfile, BlanksMayStandAroundAColon) {
  EXPECT_EQ(to_string(read("a : 2\nb: 3\nc :4\nfe80:: slots=5\n")), "a:2,b:3,c:4,fe80:::5");
}

TEST_F(Hostfile, UnknownWordsAreNamed) {
  EXPECT_THAT(error("a\nb slot=2\n"), testing::HasSubstr(path_ + ":2: 'slot=2' is not understood\nfix: lines such as"));
  EXPECT_THAT(error("a 2\n"), testing::HasSubstr(path_ + ":1: '2' is not understood"));
  EXPECT_THAT(error("a slots=x\n"), testing::EndsWith(":1: slots takes a number, 1 or more, not 'x'\n"
                                                      "fix: lines such as 'node1 slots=4'"));
  EXPECT_THAT(error("a:\n"), testing::HasSubstr("takes a number"));
}

TEST(LaunchOptions, MistakesHaveAFix) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {}, {"-n", "x", "c"}, {"--hosts", ":3", "c"}, {"--min-ranks", "3", "-n", "2", "c"}, {"--restart", "c"}}) {
    try {
      parse(words);
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("\nfix: "));
    }
  }
}

TEST(Hosts, NamesThatDoNotResolveAreTold) {
  EXPECT_EQ(unreachable_text("127.0.0.1"), "it cannot be reached");
  EXPECT_THAT(unreachable_text("no such host"), testing::HasSubstr("its name does not resolve here ("));
}

TEST(Hosts, HaveShortAndFullNames) {
  EXPECT_TRUE(is_same_host("node1", "node1"));
  EXPECT_TRUE(is_same_host("node1", "node1.cluster.org"));
  EXPECT_TRUE(is_same_host("node1.cluster.org", "node1"));
  EXPECT_FALSE(is_same_host("node1", "node10"));
  EXPECT_FALSE(is_same_host("node1.a.org", "node1.b.org"));
  EXPECT_FALSE(is_same_host("10", "10.0.0.1"));
  EXPECT_FALSE(is_same_host("10.0.0.1", "10.0.0.2"));
  EXPECT_FALSE(is_same_host("", ""));
}

TEST(Hosts, KnowTheirOwnNamesAndAddresses) {
  const std::string name = host_name(), short_name = name.substr(0, name.find('.'));
  EXPECT_TRUE(is_this_host(name));
  EXPECT_FALSE(is_this_host(short_name + ".no-such-domain.invalid"));
  const WatchListener listener;
  const WatchAddress& own = listener.address();
  for (int i = 0; i < own.count; ++i) {
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &own.ipv4[static_cast<std::size_t>(i)], text, sizeof text);
    EXPECT_TRUE(is_this_host(text)) << text;
  }
  for (const char* other : {"192.0.2.1", "2001:db8::1", "no-such-host.invalid", ""}) EXPECT_FALSE(is_this_host(other));
}

// A run names a host as the host does, --hosts perhaps by its address.
TEST(Hosts, AProbeSaysTheNameOfItsHost) {
  WatchListener listener;
  const WatchAddress& a = listener.address();
  std::string where = std::to_string(a.session) + "," + std::to_string(a.port);
  for (int i = 0; i < a.count; ++i) where += "," + std::to_string(a.ipv4[static_cast<std::size_t>(i)]);
  auto answer = std::async(std::launch::async, answer_probe, where);
  WatchLink link;
  std::optional<WatchMessage> hello;
  while (!hello && answer.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    if (!link.open()) link = listener.accept();
    hello = link.receive();
  }
  ASSERT_TRUE(hello.has_value());
  EXPECT_STREQ(hello->doing.data(), host_name().c_str());
  hello->type = WatchMessage::Type::welcome;
  link.send(*hello);
  EXPECT_EQ(answer.get(), 0);
}

// main() ignores the signal; other programs are to end by it.
TEST(Processes, DoNotIgnoreWhatThisOneIgnores) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  Process child({"grep", "SigIgn", "/proc/self/status"}, Process::Output::lines);
  std::string line;
  for (bool alive = true; alive;) {
    alive = child.running();
    child.read(100, [&](bool, const std::string& text) { line += text; });
  }
  std::signal(SIGXFSZ, before);
  ASSERT_TRUE(line.starts_with("SigIgn:\t")) << line;
  const unsigned long long ignored = std::stoull(line.substr(8), nullptr, 16);
  EXPECT_EQ(ignored >> (SIGXFSZ - 1) & 1, 0u) << line;
}

TEST(Cause, ComesFromTheFirstLineThatSaysIt) {
  Cause cause;
  note_cause("Warning: rank 1 on b is frozen for 30.0 s: its host answers\n", cause);
  note_cause("10/05/2026 12:00:00: Warning: rank 2 on c is late: no step for 31.0 s\n", cause);
  note_cause("[rank 1] Warning: rank 0 on a is frozen for 30.0 s: its host answers\n", cause);
  EXPECT_FALSE(cause.ending) << "a rank that a warning names may come back";
  note_cause("trainer launch: attempt 2; before: rank 3 on d is frozen for 9.0 s\n", cause);
  EXPECT_EQ(cause.text, "");
  note_cause("The watchdog ends the run. Where the ranks are:\n", cause);
  EXPECT_TRUE(cause.ending);
  note_cause("rank 2 on c is frozen for 300.2 s: its host answers\n", cause);
  note_cause("mpiexec noticed that process rank 0 with PID 0 on node a exited on signal 9 (Killed).\n", cause);
  EXPECT_EQ(cause.host, "c");
  EXPECT_EQ(cause.text, "rank 2 on c is frozen for 300.2 s");
}

TEST(Cause, OfAKilledRank) {
  Cause cause;
  note_cause("mpiexec noticed that process rank 1 with PID 0 on node n7 exited on signal 9 (Killed).\n", cause);
  EXPECT_EQ(cause.text, "rank 1 on n7 was ended by signal 9");
  EXPECT_EQ(cause.host, "n7");
}

TEST(Cause, OfDamagedDataIsWhereTheyComeFrom) {
  Cause weights;
  note_cause("Warning: epoch 1, after 3 minibatches: 'W0' of rank 3 on n9 differs from that of most ranks\n", weights);
  EXPECT_EQ(weights.text, "");
  note_cause(
      "The weights of the ranks differ (silent corruption?) in epoch 1, after 4 minibatches: 'W0' of rank 2 on "
      "n8 differs from that of most ranks\n",
      weights);
  EXPECT_EQ(weights.text, "'W0' of rank 2 on n8 differs from that of most ranks");
  EXPECT_EQ(weights.host, "n8");
  Cause two;
  note_cause(
      "The weights of the ranks differ in epoch 1: 'W0' of rank 2 on n7, rank 3 on n7 differs from that of "
      "most ranks\n",
      two);
  EXPECT_EQ(two.host, "n7");
  Cause message;
  note_cause("[rank 0 on n1] a message (tag 3) of 40 bytes from rank 1 on n2 was damaged on its way: ...\n", message);
  EXPECT_EQ(message.text, "a message of 40 bytes from rank 1 on n2 was damaged on its way: ...");
  EXPECT_EQ(message.host, "n2");
}

TEST(Cause, OfAMessageInTwoLines) {
  Cause cause;
  note_cause("--------------------\n", cause);
  note_cause("prterun noticed that process rank 2 with PID 127755 on node vm exited on\n", cause);
  note_cause("Finished Epoch[ 3 of 9]\n", cause);
  EXPECT_EQ(cause.text, "");
  note_cause("signal 9 (Killed).\n", cause);
  EXPECT_EQ(cause.text, "rank 2 on vm was ended by signal 9");
  EXPECT_EQ(cause.host, "vm");
  Cause other;
  note_cause("prterun noticed that process rank 2 with PID 127755 on node vm has gone.\n", other);
  note_cause("[rank 1 on n3] The disk is full\n", other);
  EXPECT_EQ(other.text, "rank 1 on n3: The disk is full");
}

TEST(Judgement, OfExitCodes) {
  EXPECT_EQ(judge_exit(kDone, false, 1).next, Next::done);
  EXPECT_EQ(judge_exit(kPreempted, true, 1).next, Next::done);
  EXPECT_EQ(judge_exit(kPreempted, false, 1).next, Next::start_again);
  EXPECT_EQ(judge_exit(kPreempted, false, 3).next, Next::give_up);
  EXPECT_EQ(judge_exit(kRankDied, false, 1).next, Next::start_again);
  EXPECT_EQ(judge_exit(137, false, 9).next, Next::start_again);
  EXPECT_EQ(judge_exit(kFailed, false, 2).next, Next::start_again);
  EXPECT_EQ(judge_exit(kFailed, false, 3).next, Next::give_up);
  EXPECT_EQ(judge_exit(kWrongConfiguration, false, 1).next, Next::give_up);
  EXPECT_EQ(judge_exit(kNotANumber, false, 1).next, Next::give_up);
}

}  // namespace
}  // namespace tutti::launch
