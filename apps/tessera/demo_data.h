#pragma once
// The bundled documents: data/ of the source tree, or the folder that TESSERA_DATA names.
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

// Throws Error(kNotFound) when they are not there.
std::filesystem::path data_folder();
// The twelve documents, sorted.
std::vector<std::string> demo_documents();
// Their texts, one after the other.
std::string demo_text();

struct DemoQuestion {
  std::string id, text;
  std::vector<std::string> answers;
  std::string file;  // of the document that answers it, in the folder of the documents
};
// Answerable ones, in the order of their file: the first of each document, at most `n`. Throws
// Error(kNotFound) where there is none.
std::vector<DemoQuestion> demo_questions(size_t n);

}  // namespace tessera
