#pragma once
// The table of models that is built into the program, as JSON text of the schema that parse_catalog
// reads.
#include <string_view>

namespace tessera {

std::string_view embedded_catalog();

}  // namespace tessera
