#include "model/image_reference.h"

#include <gtest/gtest.h>

namespace model {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

std::string normalised(std::string_view text) {
  const auto reference = parse_image_reference(text);
  return reference ? reference->normalised() : "invalid";
}

TEST(ImageReference, fills_in_what_docker_fills_in) {
  EXPECT_EQ(normalised("debian"), "docker.io/library/debian:latest");
  EXPECT_EQ(normalised("debian:12"), "docker.io/library/debian:12");
  EXPECT_EQ(normalised("team/app"), "docker.io/team/app:latest");
  EXPECT_EQ(normalised("index.docker.io/debian"), "docker.io/library/debian:latest");
  EXPECT_EQ(normalised("docker.io/a__b.c-d"), "docker.io/library/a__b.c-d:latest");
}

TEST(ImageReference, tells_a_registry_from_a_folder) {
  EXPECT_EQ(normalised("localhost:5000/x:tag"), "localhost:5000/x:tag");
  EXPECT_EQ(normalised("localhost/x"), "localhost/x:latest");
  EXPECT_EQ(normalised("127.0.0.1:15000/t/bb"), "127.0.0.1:15000/t/bb:latest");
  EXPECT_EQ(normalised("ghcr.io/a/b/c:v1.2"), "ghcr.io/a/b/c:v1.2");
  EXPECT_EQ(normalised("[::1]:5000/x"), "[::1]:5000/x:latest");
  EXPECT_EQ(normalised("x:5000"), "docker.io/library/x:5000");
}

TEST(ImageReference, keeps_digest_and_tag) {
  EXPECT_EQ(normalised("debian@" + kDigest), "docker.io/library/debian@" + kDigest);
  EXPECT_EQ(normalised("quay.io/x/y:t@" + kDigest), "quay.io/x/y:t@" + kDigest);
}

TEST(ImageReference, is_stable_under_repetition) {
  for (const auto* text : {"debian", "localhost:5000/x", "a/b:c", "[::1]:5000/x"}) {
    EXPECT_EQ(normalised(normalised(text)), normalised(text));
  }
}

TEST(ImageReference, refuses_what_is_none) {
  for (const std::string text :
       {"",       "Debian",      "a//b",     "/a",     "a/",          "a:",        "a:-x",
        "a@",     "a@sha256:12", "a@md5:12", "a b",    "a:b:c",       "../x",      "a/../b",
        "-a",     "a-",          "a..b",     "a.",     "x.y:99999/z", "x.y:0/z",   ".x/y",
        "[::1/x", "http://x/y",  "a\nb",     "--help", "oci:/tmp/x",  "docker://x"}) {
    EXPECT_EQ(normalised(text), "invalid") << text;
  }
  EXPECT_EQ(normalised(std::string(300, 'a')), "invalid");
  EXPECT_EQ(normalised("a:" + std::string(129, 'a')), "invalid");
}

TEST(ImageReference, names_the_field) {
  const auto reference = parse_image_reference("UP");
  ASSERT_FALSE(reference);
  EXPECT_EQ(reference.error().code, base::ErrorCode::invalid_field);
}

TEST(LocalImageName, takes_plain_names_and_no_registry) {
  for (const auto* text : {"debian-demo", "demo:2", "team/demo", "team/demo:v1"}) {
    EXPECT_TRUE(is_local_image_name(text)) << text;
  }
  for (const auto* text :
       {"", "Demo", "x.y/z", "localhost/z", "a:5000/z", "../a", "a@b", "a b", "a:"}) {
    EXPECT_FALSE(is_local_image_name(text)) << text;
  }
  EXPECT_FALSE(is_local_image_name(std::string(201, 'a')));
}

TEST(LocalImagePath, is_absolute) {
  EXPECT_TRUE(is_local_image_path("dir:/srv/root"));
  EXPECT_TRUE(is_local_image_path("tar:/srv/root.tar"));
  EXPECT_FALSE(is_local_image_path("dir:srv"));
  EXPECT_FALSE(is_local_image_path("file:/srv"));
}

}  // namespace
}  // namespace model
