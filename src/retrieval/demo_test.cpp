// Retrieval on the bundled demo documents: enough to know that splitting and search find what a
// reader would.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/file.h"
#include "base/sqlite.h"
#include "retrieval/document_store.h"
#include "retrieval/splitter.h"

namespace tessera {
namespace {

// data/demo of the source tree: seen from this file, or from the folder that the test runs in or
// one above it.
std::filesystem::path demo_folder() {
  std::vector<std::filesystem::path> roots = {std::filesystem::path(__FILE__).parent_path() / ".." /
                                              ".."};
  for (auto at = std::filesystem::current_path(); at != at.root_path(); at = at.parent_path())
    roots.push_back(at);
  for (const std::filesystem::path& root : roots) {
    if (std::filesystem::exists(root / "data/demo/questions.jsonl")) return root / "data/demo";
  }
  return {};
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Question {
  std::string text;
  std::string file;
  std::string answer;
};

std::vector<Question> read_questions(const std::filesystem::path& file, Database& database) {
  std::vector<Question> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    Statement fields(database,
                     "SELECT ?1 ->> 'question', ?1 ->> 'file', ?1 ->> '$.answers[0]' WHERE (?1 ->> "
                     "'answerable') = 1");
    fields.bind(1, line);
    if (fields.step()) out.push_back({fields.text(0), fields.text(1), fields.text(2)});
  }
  return out;
}

class DemoRetrieval : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(demo_folder().empty())
        << "data/demo is neither above this file nor above the working folder";
    store_ = std::make_unique<DocumentStore>(folder_.path() / "store.db");
    for (const auto& entry : std::filesystem::directory_iterator(demo_folder())) {
      const std::string extension = entry.path().extension().string();
      if (entry.path().filename() == "README.md" || (extension != ".md" && extension != ".txt"))
        continue;
      add(entry.path(),
          extension == ".md" ? DocumentFormat::kMarkdown : DocumentFormat::kPlainText);
    }
  }

  void add(const std::filesystem::path& file, DocumentFormat format) {
    const SplitOptions options{.max_tokens = 512,
                               .count_tokens = [](std::string_view title, std::string_view text) {
                                 return int32_t((title.size() + text.size() + 3) / 4);
                               }};
    const std::string name = file.filename().string();
    const auto passages = split_document(content_of(file), format, file.stem().string(), options);
    store_->add_document({.path = name, .digest = "d"}, passages);
  }

  ScratchFolder folder_{std::filesystem::temp_directory_path()};
  std::unique_ptr<DocumentStore> store_;
};

TEST_F(DemoRetrieval, DocumentsBecomeFewFullPassagesWithTheirTitle) {
  const std::map<std::string, std::string> titles = {
      {"rhine.txt", "Rhine"},
      {"frankenstein-letter-1.txt", "Letter 1"},
      {"victoria-and-albert-museum.md", "Victoria and Albert Museum"}};
  ASSERT_EQ(store_->documents().size(), 12U);
  for (const StoredDocument& document : store_->documents()) {
    EXPECT_GE(document.n_passages, 2) << document.path;
    EXPECT_LE(document.n_passages, 4) << document.path;
  }

  for (const auto& [file, title] : titles)
    EXPECT_EQ(store_->passages(file)[0].passage.title, title);
}

TEST_F(DemoRetrieval, FindsTheDocumentAndTheAnswerOfEveryQuestion) {
  Database database(folder_.path() / "json.db");
  const auto questions = read_questions(demo_folder() / "questions.jsonl", database);
  ASSERT_EQ(questions.size(), 20U);
  size_t n_documents = 0;
  size_t n_first = 0;

  for (const Question& question : questions) {
    const auto hits = store_->search(question.text, 6);
    std::set<std::string> files;
    bool has_answer = false;
    for (const SearchHit& hit : hits) {
      files.insert(hit.passage.document);
      const bool is_in_text = hit.passage.passage.text.find(question.answer) != std::string::npos;
      has_answer |= hit.passage.document == question.file && is_in_text;
    }
    n_documents += files.count(question.file);
    n_first += !hits.empty() && hits[0].passage.document == question.file ? 1 : 0;
    EXPECT_TRUE(has_answer) << question.text;
  }

  EXPECT_EQ(n_documents, 20U);
  EXPECT_EQ(n_first, 20U);
}

}  // namespace
}  // namespace tessera
