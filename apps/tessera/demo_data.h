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

}  // namespace tessera
