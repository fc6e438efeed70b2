#include "retrieval/document_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sqlite.h"

namespace tessera {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

// In memory where the system has such a folder: kills are survived there as on a disk, and every
// fsync is free.
std::filesystem::path scratch_parent() {
  const std::filesystem::path memory = "/dev/shm";
  return access(memory.c_str(), W_OK | X_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

class DocumentStoreTest : public testing::Test {
 protected:
  ScratchFolder scratch_{scratch_parent()};
  std::filesystem::path folder_ = scratch_.path();
  std::filesystem::path file_ = folder_ / "store.db";
};

constexpr int kWriters = 8;
constexpr int kDocuments = 3;
constexpr int kKills = 10;

Passage passage(std::string text, std::string title = "Title") {
  const size_t size = text.size();
  return {.title = std::move(title), .text = std::move(text), .begin = 0, .end = size};
}

std::vector<std::string> found(const DocumentStore& store, std::string_view query,
                               int32_t k = 100) {
  std::vector<std::string> out;
  for (const SearchHit& hit : store.search(query, k)) out.push_back(hit.passage.passage.text);
  return out;
}

// A word that only one document has.
std::string word_of(int writer, int number) { return fmt::format("w{}x{}", writer, number); }

void add_numbered(DocumentStore& store, int writer, int number, int n_passages) {
  const std::string word = word_of(writer, number);
  const std::vector<Passage> passages(size_t(n_passages), passage(word + " text"));
  store.add_document({.path = word, .digest = "d" + word}, passages);
}

// Long enough for a thread that does not wait to run into an error, far below the busy timeout also
// on a loaded machine.
void give_time_to_fail() {
  const Stopwatch watch;
  while (watch.ms() < 15) std::this_thread::yield();
}

void add_all(DocumentStore& store, int writer) {
  for (int i = 0; i < kDocuments; ++i) add_numbered(store, writer, i, 3);
}

void check_integrity(const std::filesystem::path& file) {
  Database database(file);
  EXPECT_EQ(database.pragma_text("integrity_check"), "ok");
  database.execute("INSERT INTO passage_index(passage_index, rank) VALUES('integrity-check', 1)");
}

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(DocumentStoreTest, GivesBackWhatWasAdded) {
  DocumentStore store(file_);
  const Passage first{.title = "Rhine > Gorge", .text = "It is deep.", .begin = 7, .end = 18};

  const auto ids =
      store.add_document({.path = "rhine.md", .digest = "ab12"}, {first, passage("North.")});

  ASSERT_THAT(ids, SizeIs(2));
  const auto passages = store.passages("rhine.md");
  ASSERT_THAT(passages, SizeIs(2));
  EXPECT_EQ(passages[0].id, ids[0]);
  EXPECT_EQ(passages[1].id, ids[1]);
  EXPECT_EQ(passages[0].document, "rhine.md");
  EXPECT_EQ(passages[0].passage.title, first.title);
  EXPECT_EQ(passages[0].passage.text, first.text);
  EXPECT_EQ(passages[0].passage.begin, 7U);
  EXPECT_EQ(passages[0].passage.end, 18U);
  const auto document = store.document("rhine.md").value_or(StoredDocument{});
  EXPECT_EQ(document.digest, "ab12");
  EXPECT_EQ(document.n_passages, 2);
  EXPECT_EQ(store.n_passages(), 2);
}

TEST_F(DocumentStoreTest, AnUnknownDocumentHasNothing) {
  DocumentStore store(file_);

  EXPECT_FALSE(store.document("x"));
  EXPECT_FALSE(store.remove_document("x"));
  EXPECT_THAT(store.passages("x"), IsEmpty());
  EXPECT_THAT(store.documents(), IsEmpty());
  EXPECT_THAT(store.search("x", 5), IsEmpty());
}

TEST_F(DocumentStoreTest, KeepsSettings) {
  DocumentStore store(file_);
  EXPECT_THAT(store.settings(), IsEmpty());

  store.replace_settings({{"model", "a"}});
  store.replace_settings({{"model", "qwen 'q' \u00e9"}, {"empty", ""}});

  EXPECT_THAT(store.settings(), ElementsAre(Pair("empty", ""), Pair("model", "qwen 'q' \u00e9")));
}

TEST_F(DocumentStoreTest, TheFirstWriterOfSettingsWinsWithAllOfThem) {
  DocumentStore first(file_), second(file_);

  first.init_settings({{"anchor", "bare"}, {"model", "a"}});
  second.init_settings({{"anchor", "leadin"}, {"model", "b"}});

  EXPECT_THAT(second.settings(), ElementsAre(Pair("anchor", "bare"), Pair("model", "a")));
}

TEST_F(DocumentStoreTest, APartOfTheSettingsCountsAsNone) {
  DocumentStore store(file_);
  store.replace_settings({{"model", "a"}});

  store.init_settings({{"anchor", "leadin"}, {"model", "b"}});

  EXPECT_THAT(store.settings(), ElementsAre(Pair("anchor", "leadin"), Pair("model", "b")));
}

TEST_F(DocumentStoreTest, SurvivesReopening) {
  { DocumentStore(file_).add_document({.path = "b", .digest = "2"}, {passage("beta")}); }
  {
    DocumentStore store(file_);
    store.add_document({.path = "a", .digest = "1"}, {passage("alpha"), passage("more alpha")});
    store.replace_settings({{"anchor", "leadin"}});
  }

  const DocumentStore store(file_);

  const auto documents = store.documents();
  ASSERT_THAT(documents, SizeIs(2));
  EXPECT_EQ(documents[0].path, "a");
  EXPECT_EQ(documents[0].n_passages, 2);
  EXPECT_EQ(documents[1].path, "b");
  EXPECT_THAT(found(store, "beta"), ElementsAre("beta"));
  EXPECT_EQ(store.settings()["anchor"], "leadin");
}

TEST_F(DocumentStoreTest, IsPrivateToItsOwner) {
  const mode_t before = umask(0);
  DocumentStore store(file_);
  store.replace_settings({{"a", "b"}});
  umask(before);

  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.status().permissions() & std::filesystem::perms::all,
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << entry.path();
  }
}

// RELIABILITY.md row 79.
TEST_F(DocumentStoreTest, AShorterNewVersionLeavesNothingOfTheOld) {
  DocumentStore store(file_);
  std::vector<Passage> old_passages;
  old_passages.reserve(10);
  for (int i = 0; i < 10; ++i) old_passages.push_back(passage("ancient " + std::to_string(i)));
  const auto old_ids = store.add_document({.path = "doc", .digest = "1"}, old_passages);
  ASSERT_THAT(found(store, "ancient"), SizeIs(10));

  const auto new_ids =
      store.add_document({.path = "doc", .digest = "2"},
                         {passage("modern a"), passage("modern b"), passage("modern c")});

  EXPECT_THAT(found(store, "ancient"), IsEmpty());
  EXPECT_THAT(found(store, "modern"), ElementsAre("modern a", "modern b", "modern c"));
  EXPECT_EQ(store.n_passages(), 3);
  EXPECT_EQ(store.document("doc").value_or(StoredDocument{}).digest, "2");
  EXPECT_THAT(store.documents(), SizeIs(1));
  for (const int64_t id : new_ids)
    EXPECT_EQ(std::count(old_ids.begin(), old_ids.end(), id), 0) << "id given again";
  check_integrity(file_);
}

TEST_F(DocumentStoreTest, RemovingOneOfTwoDocumentsKeepsTheSharedPassageOfTheOther) {
  DocumentStore store(file_);
  store.add_document({.path = "a", .digest = "1"}, {passage("shared words"), passage("own alpha")});
  store.add_document({.path = "b", .digest = "1"}, {passage("shared words"), passage("own beta")});
  ASSERT_THAT(found(store, "shared"), SizeIs(2));

  EXPECT_TRUE(store.remove_document("a"));

  ASSERT_THAT(store.search("shared", 5), SizeIs(1));
  EXPECT_EQ(store.search("shared", 5)[0].passage.document, "b");
  EXPECT_THAT(found(store, "alpha"), IsEmpty());
  EXPECT_THAT(found(store, "beta"), SizeIs(1));
  EXPECT_FALSE(store.remove_document("a"));
  check_integrity(file_);
}

// RELIABILITY.md row 78.
TEST_F(DocumentStoreTest, RemovingTheMiddleDocumentAndAddingItAgainFindsTheExactSet) {
  DocumentStore store(file_);
  for (const std::string name : {"one", "two", "three"}) {
    store.add_document({.path = name, .digest = "1"}, {passage("about " + name)});
  }
  store.remove_document("two");
  EXPECT_THAT(found(store, "two"), IsEmpty());

  store.add_document({.path = "two", .digest = "2"}, {passage("about two")});

  for (const std::string name : {"one", "two", "three"}) {
    EXPECT_THAT(found(store, name), ElementsAre("about " + name));
  }
}

TEST_F(DocumentStoreTest, ADocumentMayHaveNoPassages) {
  DocumentStore store(file_);
  store.add_document({.path = "empty", .digest = "1"}, {passage("gone")});

  EXPECT_THAT(store.add_document({.path = "empty", .digest = "2"}, {}), IsEmpty());

  EXPECT_EQ(store.document("empty").value_or(StoredDocument{}).n_passages, 0);
  EXPECT_THAT(found(store, "gone"), IsEmpty());
}

TEST_F(DocumentStoreTest, SearchMatchesAnyWordByItsStem) {
  DocumentStore store(file_);
  store.add_document({.path = "a", .digest = "1"},
                     {passage("Rivers were flowing north."), passage("A castle.")});

  EXPECT_THAT(found(store, "flow unknown"), ElementsAre("Rivers were flowing north."));
  EXPECT_THAT(found(store, "river castles"), SizeIs(2));
  EXPECT_THAT(found(store, "unknown"), IsEmpty());
}

TEST_F(DocumentStoreTest, SearchPutsTheBestFirstWithPositiveScores) {
  DocumentStore store(file_);
  store.add_document(
      {.path = "a", .digest = "1"},
      {passage("Something of castles and many other words that make it long.", "Other"),
       passage("It is about something else.", "Castles"), passage("Castles by castles.", "Other"),
       passage("Nothing.", "Other")});

  const auto hits = store.search("castle", 10);

  ASSERT_THAT(hits, SizeIs(3));
  EXPECT_EQ(hits[2].passage.passage.text.substr(0, 12), "Something of");
  EXPECT_GT(hits[0].score, hits[2].score);
  EXPECT_GT(hits[2].score, 0);
  EXPECT_THAT(store.search("castle", 1), SizeIs(1));
}

TEST_F(DocumentStoreTest, AWordInTheTitleWeighsMoreThanInTheText) {
  DocumentStore store(file_);
  store.add_document({.path = "a", .digest = "1"},
                     {passage("castle", "river"), passage("river", "castle")});
  store.add_document({.path = "b", .digest = "1"},
                     std::vector<Passage>(8, passage("else", "else")));

  const auto hits = store.search("castle", 10);

  ASSERT_THAT(hits, SizeIs(2));
  EXPECT_EQ(hits[0].passage.passage.title, "castle");
  EXPECT_GT(hits[0].score, hits[1].score);
}

TEST_F(DocumentStoreTest, TiesAreBrokenById) {
  DocumentStore store(file_);
  const auto ids = store.add_document({.path = "a", .digest = "1"},
                                      std::vector<Passage>(20, passage("same words")));

  for (const int32_t k : {20, 7}) {
    const auto hits = store.search("same", k);
    ASSERT_THAT(hits, SizeIs(size_t(k)));
    for (size_t i = 0; i < hits.size(); ++i) EXPECT_EQ(hits[i].passage.id, ids[i]);
  }
}

TEST_F(DocumentStoreTest, OperatorsInAQueryAreData) {
  DocumentStore store(file_);
  store.add_document({.path = "a", .digest = "1"},
                     {passage("alpha beta"), passage("gamma delta"), passage("near and")});

  EXPECT_THAT(found(store, "alpha NOT beta"), ElementsAre("alpha beta"));
  EXPECT_THAT(found(store, "alpha AND gamma"), SizeIs(2));
  EXPECT_THAT(found(store, "NEAR(alpha gamma, 0)"), SizeIs(3));
  EXPECT_THAT(found(store, "text:alpha"), ElementsAre("alpha beta"));
  EXPECT_THAT(found(store, "-alpha ^gamma"), SizeIs(2));
  EXPECT_THAT(found(store, "alph*"), IsEmpty());
  for (const std::string query :
       {"\"", "\"\"", "(", "NEAR(", "*", "a\"b", "'; DROP TABLE passages; --", "{a b}:", "a + b",
        "\xFF\xFE", "\u2014", "col:", "AND", "OR OR", ":", "^", "-"}) {
    EXPECT_NO_THROW(store.search(query, 5)) << query;
  }
  EXPECT_NO_THROW(store.search(std::string("a\0b", 3), 5));
  EXPECT_NO_THROW(store.search(std::string(1 << 20, 'a'), 5));
  EXPECT_EQ(store.n_passages(), 3);
}

TEST_F(DocumentStoreTest, AnEmptyQueryOrNoRoomFindsNothing) {
  DocumentStore store(file_);
  store.add_document({.path = "a", .digest = "1"}, {passage("alpha")});

  EXPECT_THAT(store.search("", 5), IsEmpty());
  EXPECT_THAT(store.search("?!", 5), IsEmpty());
  EXPECT_THAT(store.search("alpha", 0), IsEmpty());
  EXPECT_THAT(store.search("alpha", -1), IsEmpty());
  EXPECT_THAT(store.search("alpha", 5), SizeIs(1));
}

TEST_F(DocumentStoreTest, FindsTextOutsideAscii) {
  DocumentStore store(file_);
  store.add_document(
      {.path = "d\u00f6c.md", .digest = "1"},
      {passage("Tem\u00fcjin was elected khan."), passage("\u041c\u043e\u0441\u043a\u0432\u0430"),
       passage("\u6211\u4eec\u5f88\u597d\u3002\u4f60\u4eec\u5462")});

  EXPECT_THAT(found(store, "TEM\u00dcJIN?"), SizeIs(1));
  EXPECT_THAT(found(store, "temujin"), SizeIs(1));
  EXPECT_THAT(found(store, "\u043c\u043e\u0441\u043a\u0432\u0430"), SizeIs(1));
  EXPECT_THAT(found(store, "\u6211\u4eec\u5f88\u597d\u3002"), SizeIs(1));
  EXPECT_EQ(store.documents()[0].path, "d\u00f6c.md");
}

TEST_F(DocumentStoreTest, RefusesAFileThatIsNoDatabaseAndLeavesIt) {
  for (const std::string& content :
       {std::string("x"), std::string(5000, 'x'), std::string("SQLite format 3"),
        std::string("SQLite format 3\0", 16) + std::string(20, 'x')}) {
    std::ofstream(file_, std::ios::binary) << content;

    EXPECT_THAT(message_of([&] { DocumentStore store(file_); }, ErrorCode::kIo),
                HasSubstr("not an SQLite file"));

    EXPECT_EQ(content_of(file_), content);
  }
}

TEST_F(DocumentStoreTest, RefusesADatabaseOfAnotherProgramAndLeavesIt) {
  for (const std::string mode : {"delete", "wal"}) {
    const std::filesystem::path foreign = folder_ / mode;
    Database other(foreign);
    other.execute("PRAGMA journal_mode=" + mode +
                  "; CREATE TABLE t(x); INSERT INTO t VALUES (1); PRAGMA user_version=1");
    const std::string before = content_of(foreign);

    EXPECT_THAT(message_of([&] { DocumentStore store(foreign); }, ErrorCode::kIo),
                HasSubstr("another program"));

    EXPECT_EQ(content_of(foreign), before);
    Statement still(other, "SELECT x FROM t");
    EXPECT_TRUE(still.step());
  }
}

TEST_F(DocumentStoreTest, RefusesANewerSchemaAndSaysToUpgrade) {
  { DocumentStore(file_).replace_settings({{"a", "b"}}); }
  Database(file_).execute("PRAGMA user_version=2");

  EXPECT_THAT(message_of([&] { DocumentStore store(file_); }, ErrorCode::kIo),
              HasSubstr("upgrade"));

  Database(file_).execute("PRAGMA user_version=1");
  EXPECT_EQ(DocumentStore(file_).settings()["a"], "b");
}

TEST_F(DocumentStoreTest, RefusesWhatCannotBeAFile) {
  EXPECT_THAT(message_of([&] { DocumentStore store(folder_); }, ErrorCode::kIo),
              HasSubstr("not a file"));
  EXPECT_THAT(message_of([&] { DocumentStore store(folder_ / "no" / "x.db"); }, ErrorCode::kIo),
              HasSubstr("no/x.db"));
}

TEST_F(DocumentStoreTest, OpensFilesWithOddNamesAndEmptyFiles) {
  for (const std::string name : {"a b.db", "100%25.db", "what?mode=ro", "#1", "\u00e9.db"}) {
    const std::filesystem::path file = folder_ / name;
    std::ofstream(file).close();
    { DocumentStore(file).replace_settings({{"a", name}}); }
    EXPECT_EQ(DocumentStore(file).settings()["a"], name);
  }
}

// RELIABILITY.md row 80: a writer that has to wait does wait, also one that reads before it writes.
TEST_F(DocumentStoreTest, WritersWaitForTheWriteLock) {
  DocumentStore store(file_);
  add_numbered(store, 0, 0, 3);
  Database other(file_);
  other.execute("BEGIN IMMEDIATE; INSERT INTO settings VALUES ('a', 'b')");
  std::atomic<bool> is_about_to_write = false;
  std::jthread writer([&] {
    is_about_to_write = true;
    EXPECT_NO_THROW(EXPECT_TRUE(store.remove_document(word_of(0, 0))));
    EXPECT_NO_THROW(store.replace_settings({{"c", "d"}}));
  });
  while (!is_about_to_write) std::this_thread::yield();

  give_time_to_fail();
  other.execute("COMMIT");
  writer.join();

  EXPECT_EQ(store.n_passages(), 0);
  EXPECT_EQ(store.settings()["a"], "b");
}

// A creator killed early leaves the file without its write-ahead log; the next one to open it
// switches it on, although another one is writing.
TEST_F(DocumentStoreTest, OpeningWaitsForAWriterOfAFileThatHasNoLogYet) {
  { DocumentStore(file_).replace_settings({{"a", "b"}}); }
  Database other(file_);
  ASSERT_EQ(other.pragma_text("journal_mode=DELETE"), "delete");
  other.execute("BEGIN IMMEDIATE; INSERT INTO settings VALUES ('c', 'd')");
  std::atomic<bool> is_about_to_open = false;
  std::jthread opener([&] {
    is_about_to_open = true;
    EXPECT_NO_THROW(EXPECT_EQ(DocumentStore(file_).settings()["a"], "b"));
  });
  while (!is_about_to_open) std::this_thread::yield();

  give_time_to_fail();
  other.execute("COMMIT");
  opener.join();

  EXPECT_EQ(Database(file_).pragma_text("journal_mode"), "wal");
}

// Through one store, and through a store for each.
TEST_F(DocumentStoreTest, EightThreadsWriteAtOnce) {
  DocumentStore shared(file_);
  std::vector<std::jthread> threads;
  threads.reserve(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&shared, writer, this] {
      DocumentStore own(file_);
      add_all(writer % 2 == 0 ? own : shared, writer);
    });
  }
  threads.clear();

  EXPECT_EQ(shared.n_passages(), kWriters * kDocuments * 3);
  for (int w = 0; w < kWriters; ++w) EXPECT_THAT(found(shared, word_of(w, 0)), SizeIs(3));
  check_integrity(file_);
}

// Runs `work` in a child process, which ends with it.
pid_t start(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    work();
  } catch (const std::exception& error) {
    fprintf(stderr, "child: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(DocumentStoreTest, EightProcessesCreateTheFileAndWriteAtOnce) {
  int gate[2];  // opens for all when the parent closes its end
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  children.reserve(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    children.push_back(start([&] {
      close(gate[1]);
      char none = 0;
      if (read(gate[0], &none, 1) != 0) _exit(2);
      DocumentStore store(file_);
      add_all(store, writer);
    }));
  }
  close(gate[0]);
  close(gate[1]);
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);

  const DocumentStore store(file_);
  EXPECT_EQ(store.n_passages(), kWriters * kDocuments * 3);
  for (int writer = 0; writer < kWriters; ++writer)
    EXPECT_THAT(found(store, word_of(writer, 0)), SizeIs(3));
  check_integrity(file_);
}

// Writes documents for ever, and reports each one that is safe.
void write_until_killed(const std::filesystem::path& file, int writer, int report) {
  DocumentStore store(file);
  for (int i = 0;; ++i) {
    add_numbered(store, writer, i, 5);
    if (write(report, &i, sizeof i) != ssize_t(sizeof i)) return;
  }
}

// RELIABILITY.md row 50. The first kills come before the file is complete, the later ones among its
// writes.
TEST_F(DocumentStoreTest, AKilledWriterLeavesWholeDocumentsAndAllThatWereReported) {
  std::vector<std::string> reported;
  for (int round = 0; round < kKills; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = start([&] { write_until_killed(file_, round, ends[1]); });
    close(ends[1]);
    int number = 0;
    for (int i = 0; i < round - 1 && read(ends[0], &number, sizeof number) > 0; ++i) {
    }
    kill(child, SIGKILL);
    while (read(ends[0], &number, sizeof number) > 0) reported.push_back(word_of(round, number));
    close(ends[0]);
    ASSERT_EQ(WTERMSIG(status_of(child)), SIGKILL);

    const DocumentStore store(file_);
    for (const StoredDocument& document : store.documents()) {
      ASSERT_EQ(document.n_passages, 5) << document.path;
      ASSERT_THAT(found(store, document.path), SizeIs(5));
    }
    for (const std::string& path : reported) ASSERT_TRUE(store.document(path)) << path;
    check_integrity(file_);
  }
  EXPECT_FALSE(DocumentStore(file_).documents().empty());
}

// Kills at many points of the very first moments of a file.
TEST_F(DocumentStoreTest, AFileWhoseCreatorWasKilledIsUsable) {
  for (int round = 0; round < 12; ++round) {
    const std::filesystem::path file = folder_ / std::to_string(round);
    const pid_t child = start([&] { DocumentStore(file).replace_settings({{"a", "b"}}); });
    // The child is let go on until the folder shows some sign of it; the sign differs with the
    // round.
    const std::string sign = round % 3 == 0 ? "" : round % 3 == 1 ? "-journal" : "-wal";
    const std::filesystem::path awaited = file.string() + sign;
    for (int i = 0; i < 200 * round && !std::filesystem::exists(awaited); ++i) {
    }
    kill(child, SIGKILL);
    status_of(child);

    DocumentStore store(file);
    EXPECT_THAT(store.settings(), AnyOf(IsEmpty(), ElementsAre(Pair("a", "b"))));
    store.replace_settings({{"a", "c"}});
    EXPECT_EQ(DocumentStore(file).settings()["a"], "c");
  }
}

}  // namespace
}  // namespace tessera
