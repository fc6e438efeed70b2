#pragma once
// The command-line options of reuse policies, for every command that takes them.
#include <CLI/CLI.hpp>
#include <string>

#include "reuse/policy.h"

namespace tessera {

// All but --policy itself.
void add_policy_options(CLI::App& app, PolicyOptions& options);

// The policies, one a line, for --help.
std::string policy_help();

}  // namespace tessera
