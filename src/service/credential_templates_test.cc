#include "service/credential_templates.h"

#include <gtest/gtest.h>

namespace service {
namespace {

base::Result<CredentialSettings> parse(std::string_view json,
                                       const std::vector<std::string>& shipped = {}) {
  const auto object = wire::json::parse_object(json);
  EXPECT_TRUE(object.has_value()) << json;
  return parse_credentials(*object, shipped,
                           [](const std::string& path) -> base::Result<std::string> {
                             if (path == "/absent") {
                               return base::fail(base::ErrorCode::io, "no such file");
                             }
                             if (path == "/binary") {
                               return std::string("\xFF\xFE");
                             }
                             if (path == "/nul") {
                               return std::string("a\0b", 3);
                             }
                             return "of " + path + "\n";
                           });
}

std::string field_of(const base::Result<CredentialSettings>& settings) {
  if (settings) {
    return "(fine)";
  }
  for (const auto& [name, value] : settings.error().details) {
    if (name == "field") {
      return value;
    }
  }
  return "(none)";
}

TemplateValues values() {
  return {"tok\"en",
          "2026-01-01T00:00:00.000Z",
          "http://169.254.1.1",
          "https://us.example",
          "sbx-1",
          "red",
          "amy",
          "demo:latest"};
}

TEST(CredentialTemplates, a_text_is_itself_but_for_its_names) {
  const auto settings = parse(R"({"secrets":{"p":"/p"},"templates":{"a":{
    "files":{"~/x":"{ {{token}} {{ json token }} {{secret.p}} {{ json secret.p }} }} {"},
    "variables":{"A":"~/x","B":"{{ sandbox.id }}-{{sandbox.team}}-{{ issuer }}"}}}})");
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  const CredentialTemplate& one = settings->templates.at(0);
  EXPECT_EQ(one.files.at(0).content.render(values()), R"({ tok"en "tok\"en" of /p "of /p" }} {)");
  EXPECT_EQ(one.variables.at(0).value.render(values()), "~/x");
  EXPECT_EQ(one.variables.at(1).value.render(values()), "sbx-1-red-https://us.example");
}

TEST(CredentialTemplates, what_is_wrong_is_named) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"template":{}})", "template"},
      {R"({"templates":{"a":{}}})", "templates.a"},
      {R"({"templates":{"a b":{"variables":{"A":"x"}}}})", "templates.a b"},
      {R"({"templates":{"a":{"variables":{"A":"{{ tokens }}"}}}})", "templates.a.variables.A"},
      {R"({"templates":{"a":{"variables":{"A":"{{ token"}}}})", "templates.a.variables.A"},
      {R"({"templates":{"a":{"variables":{"A":"{{ secret.b }}"}}}})", "templates.a.variables.A"},
      {R"({"templates":{"a":{"variables":{"1A":"x"}}}})", "templates.a.variables.1A"},
      {R"({"templates":{"a":{"variables":{"A-B":"x"}}}})", "templates.a.variables.A-B"},
      {R"({"templates":{"a":{"files":{"x":"y"}}}})", "templates.a.files.x"},
      {R"({"templates":{"a":{"files":{"/x/":"y"}}}})", "templates.a.files./x/"},
      {R"({"templates":{"a":{"service":"s","variables":{"A":"x"}}}})", "templates.a.service"},
      {R"({"templates":{"a":{"variables":{"A":"x"}},"b":{"variables":{"A":"y"}}}})", "templates"},
      {R"({"secrets":{"a":"/absent"}})", "secrets.a"},
      {R"({"secrets":{"a":"/binary"}})", "secrets.a"},
      {R"({"secrets":{"a":"/nul"}})", "secrets.a"},
      {R"({"services":{"s":{"token_endpoint":"https://far.example/","audience":""}}})",
       "services.s.audience"},
      {R"({"services":{"s":{"token_endpoint":"https://far.example/","audience":"a",
          "client_secret_file":"/nul"}}})",
       "services.s.client_secret_file"},
      {R"({"templates":{"a":{"audience":"","variables":{"A":"x"}}}})", "templates.a.audience"},
      {R"({"audiences":[""]})", "audiences"},
      {R"({"services":{"s":{"token_endpoint":"http://far.example/","audience":"a"}}})",
       "services.s.token_endpoint"},
      {R"({"services":{"s":{"token_endpoint":"https://far.example/"}}})", "services.s.audience"}};
  for (const auto& [json, field] : wrong) {
    EXPECT_EQ(field_of(parse(json)), field) << json;
  }
  EXPECT_EQ(field_of(parse("{}", {"nothing"})), "credentials");
}

TEST(CredentialTemplates, all_texts_together_are_bounded) {
  constexpr size_t kTextBytes = size_t{64} * 1024;
  constexpr size_t kFits = 4;
  for (const size_t count : {kFits, kFits + 1}) {
    wire::json::Object files;
    for (size_t i = 0; i < count; ++i) {
      files["~/" + std::to_string(i)] = std::string(kTextBytes, 'x');
    }
    const wire::json::Object one{{"files", std::move(files)}};
    const wire::json::Object document{{"templates", wire::json::Object{{"a", one}}}};
    EXPECT_EQ(field_of(parse(wire::json::serialize(document))),
              count == kFits ? "(fine)" : "templates");
  }
}

TEST(CredentialTemplates, the_shipped_ones_are_json_of_what_their_clients_read) {
  const auto settings = parse("{}", {"sandbox", "gatana"});
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  ASSERT_EQ(settings->templates.size(), 2U);
  const auto own =
      wire::json::parse_object(settings->templates.at(0).files.at(0).content.render(values()));
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->at("url"), "http://169.254.1.1");
  EXPECT_EQ(own->at("token"), "tok\"en");
  const auto other =
      wire::json::parse_object(settings->templates.at(1).files.at(0).content.render(values()));
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->at("orgs").at("sandbox").at("baseUrl"), "http://169.254.1.1/api/v1");
}

}  // namespace
}  // namespace service
