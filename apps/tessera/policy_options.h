#pragma once
// The command-line options of reuse policies, for every command that takes them.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/request.h"
#include "reuse/policy.h"
#include "tessera/model_profile.h"

namespace tessera {

// --ratio, for commands that take what 'tessera tune' found where it is not given.
void add_ratio_option(CLI::App& app, PolicyOptions& options);

// All but --policy itself and --ratio.
void add_policy_options(CLI::App& app, PolicyOptions& options);

// The parts of adaptive context; whether it is asked for is the command's to say.
std::vector<CLI::Option*> add_adaptive_options(CLI::App& app, AdaptiveContext& adaptive);

// Which of the options above, and of --ratio, were given to `app`, which has them all.
GivenOptions given_options(const CLI::App& app);

// What add_policy_options() sets, for records of what was run.
nlohmann::json policy_options_json(const PolicyOptions& options);

// The policies, one a line, for --help.
std::string policy_help();

}  // namespace tessera
