#pragma once
// All collectives: a new one adds its descriptor here.

#include <span>
#include <string>
#include <vector>

#include "src/base/settings.hpp"
#include "src/comm/engine/collective_descriptor.hpp"

namespace sparcl::collectives {

comm::CollectiveTable collective_table();

// The settings that choose an algorithm, from the collectives' tables.
std::span<const SettingRow> algorithm_settings();
// The chosen algorithm: by the environment, else "auto". An error names the variable.
Result<std::string> chosen_algorithm(const comm::AlgorithmChoice& choice);
// All settings: those of src/base and these.
std::vector<SettingRow> all_setting_rows();

}  // namespace sparcl::collectives
