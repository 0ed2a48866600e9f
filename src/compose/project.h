// The files of a project read, their variables put in, merged, and the services that are to run
// picked. Pure.
#pragma once

#include <string>
#include <vector>

#include "compose/plan.h"
#include "wire/json.h"

namespace compose {

struct Project {
  wire::json::Object volumes;   // by name
  wire::json::Object networks;  // by name
  wire::json::Object configs;   // by name
  wire::json::Object secrets;   // by name
  // In the files' order, main first; without those of profiles that are not asked for.
  std::vector<std::pair<std::string, wire::json::Object>> services;
  std::vector<std::string> left_out;  // by their profile
  // Files that services are extended from, whose texts are not given; else this is not all there
  // is.
  std::vector<std::string> missing;
};

base::Result<Project> read_project(const Input& input);

}  // namespace compose
