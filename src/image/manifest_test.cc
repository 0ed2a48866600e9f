#include "image/manifest.h"

#include <gtest/gtest.h>

#include "image/skopeo.h"

namespace image {
namespace {

const std::string kA = "sha256:" + std::string(64, 'a');
const std::string kB = "sha256:" + std::string(64, 'b');

std::string descriptor(const std::string& digest, const std::string& more = "") {
  return R"({"mediaType":"m","size":3,"digest":")" + digest + "\"" + more + "}";
}
std::string platform(const std::string& os, const std::string& architecture,
                     const std::string& variant = "") {
  return R"(,"platform":{"os":")" + os + R"(","architecture":")" + architecture + "\"" +
         (variant.empty() ? "" : R"(,"variant":")" + variant + "\"") + "}";
}
std::string index(const std::string& entries) {
  return R"({"schemaVersion":2,"manifests":[)" + entries + "]}";
}
template <typename T>
std::string reason(const Result<T>& result) {
  return result ? "" : reason_of(result.error());
}

TEST(Manifest, of_an_image_gives_config_and_layers) {
  const auto parsed = parse_manifest(R"({"schemaVersion":2,"config":)" + descriptor(kA) +
                                     R"(,"layers":[)" + descriptor(kB) + "]}");
  ASSERT_TRUE(parsed && parsed->manifest);
  EXPECT_EQ(parsed->manifest->config.digest, kA);
  EXPECT_EQ(parsed->manifest->layers.at(0).digest, kB);
}

TEST(Manifest, an_index_gives_the_plain_amd64_entry) {
  const auto parsed = parse_manifest(index(descriptor(kA, platform("unknown", "unknown")) + "," +
                                           descriptor(kA, platform("linux", "amd64", "v3")) + "," +
                                           descriptor(kB, platform("linux", "amd64"))));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->chosen.digest, kB);
  const auto nested = parse_manifest(index(descriptor(kA)));
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->chosen.digest, kA);
}

TEST(Manifest, an_index_without_amd64_is_a_platform_mismatch) {
  const auto parsed = parse_manifest(index(descriptor(kA, platform("linux", "arm64"))));
  EXPECT_EQ(reason(parsed), kPlatformMismatch);
  EXPECT_TRUE(parsed.error().message.contains("linux/arm64"));
  EXPECT_EQ(reason(parse_manifest(index(""))), kPlatformMismatch);
}

TEST(Manifest, refuses_what_cannot_be_laid_out) {
  const std::string head = R"({"schemaVersion":2,"config":)" + descriptor(kA) + R"(,"layers":[)";
  EXPECT_EQ(reason(parse_manifest(head + descriptor(kB, R"(,"urls":["http://x"])") + "]}")),
            kInvalid);
  EXPECT_EQ(
      reason(parse_manifest(head + R"({"mediaType":"nondistributable.v1.tar","size":1,"digest":")" +
                            kB + "\"}]}")),
      kInvalid);
  EXPECT_EQ(reason(parse_manifest(head + descriptor("sha256:../../x") + "]}")), kInvalid);
  EXPECT_EQ(reason(parse_manifest(head + R"({"size":-1,"digest":")" + kB + "\"}]}")), kInvalid);
  EXPECT_EQ(reason(parse_manifest(R"({"schemaVersion":1,"fsLayers":[]})")), kInvalid);
  EXPECT_EQ(reason(parse_manifest("[]")), kInvalid);
  EXPECT_EQ(reason(parse_manifest("{")), kInvalid);
}

std::string config(const std::string& inside, const std::string& diff_ids) {
  return R"({"os":"linux","architecture":"amd64","config":{)" + inside +
         R"(},"rootfs":{"diff_ids":[)" + diff_ids + "]}}";
}

TEST(Config, gives_what_processes_need) {
  const auto parsed = parse_config(
      config(R"("Env":["A=1","B=x=y","broken"],"User":"1000:1","WorkingDir":"/w","Cmd":["sh"],)"
             R"("Entrypoint":"lone","ExposedPorts":{"80/tcp":{}})",
             "\"" + kA + "\""),
      1);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->environment,
            (std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", "x=y"}}));
  EXPECT_EQ(parsed->user, "1000:1");
  EXPECT_EQ(parsed->workdir, "/w");
  EXPECT_EQ(parsed->cmd, std::vector<std::string>{"sh"});
  EXPECT_EQ(parsed->entrypoint, std::vector<std::string>{"lone"});
  EXPECT_EQ(parsed->exposed_ports, std::vector<std::string>{"80/tcp"});
  EXPECT_EQ(parsed->diff_ids, std::vector<std::string>{kA});
}

TEST(Config, keeps_what_a_build_on_it_goes_on_with_and_drops_what_is_malformed) {
  const auto more = [](const std::string& inside) {
    const auto parsed = parse_config(config(inside, ""), 0);
    return parsed ? parsed->more_json : parsed.error().message;
  };
  EXPECT_EQ(more(R"("Labels":{"a":"b"},"OnBuild":["RUN x"],"Shell":["sh"],"StopSignal":"INT")"),
            R"({"stop_signal":"INT","shell":["sh"],"onbuild":["RUN x"],"labels":{"a":"b"}})");
  EXPECT_EQ(more(R"("Healthcheck":{"Test":["CMD","x"],"Retries":3},"Volumes":{"/d":{}})"),
            R"({"healthcheck":{"Test":["CMD","x"],"Retries":3},"volumes":{"/d":{}}})");
  EXPECT_EQ(more(R"("Labels":{"a":1},"OnBuild":"RUN","Healthcheck":{"Test":[1]},"StopSignal":{})"),
            "{}");
  EXPECT_EQ(more(R"("OnBuild":["x"],"Labels":{"a":")" + std::string(kMoreBytesMax, 'x') + "\"}"),
            R"({"onbuild":["x"]})");
}

TEST(Config, takes_nulls_and_absence) {
  EXPECT_TRUE(parse_config(config(R"("Env":null,"Cmd":null,"Entrypoint":null)", ""), 0));
  EXPECT_TRUE(parse_config(R"({"os":"linux","architecture":"amd64"})", 0));
}

TEST(Config, of_another_platform_or_other_layers_is_refused) {
  EXPECT_EQ(reason(parse_config(R"({"os":"linux","architecture":"arm64"})", 0)), kPlatformMismatch);
  EXPECT_EQ(reason(parse_config(config("", "\"" + kA + "\""), 2)), kInvalid);
  EXPECT_EQ(reason(parse_config(config("", "\"sha256:zz\""), 1)), kInvalid);
  EXPECT_EQ(reason(parse_config(config(R"("Env":[1])", ""), 0)), kInvalid);
  EXPECT_EQ(reason(parse_config(config(R"("Cmd":[")" + std::string(200'000, 'x') + "\"]", ""), 0)),
            kInvalid);
}

std::string explained(const std::string& message) {
  return reason_of(explain_failure("time=\"x\" level=fatal msg=\"" + message + "\"\n", "r/i:t"));
}

TEST(SkopeoFailure, has_the_reason_of_what_it_says) {
  EXPECT_EQ(explained("reading manifest nope in r/i: manifest unknown"), kNotFound);
  EXPECT_EQ(explained("reading manifest t in r/i: unauthorized: authentication required"),
            kPullDenied);
  EXPECT_EQ(explained("unable to retrieve auth token: invalid username/password: unauthorized"),
            kPullDenied);
  EXPECT_EQ(explained("pinging container registry r: dial tcp: connection refused"), kPullFailed);
  EXPECT_EQ(explained("reading manifest t in r/i: toomanyrequests: pull rate limit"), kRateLimited);
  EXPECT_EQ(explained("unsupported docker v2s2 media type: \\\"x\\\""), kInvalid);
  EXPECT_EQ(reason_of(explain_failure("", "r/i:t")), kPullFailed);
}

TEST(SkopeoOutput, says_that_the_registry_makes_it_wait_until_it_goes_on) {
  const std::string waits =
      "level=debug msg=\"GET https://r/v2/\"\nlevel=debug msg=\"Too many requests to "
      "https://r/v2/: "
      "sleeping for 7.000000 seconds before next attempt\"\n";
  EXPECT_TRUE(notice_in(waits).ends_with("next try after 7 s")) << notice_in(waits);
  EXPECT_EQ(notice_in(waits + "level=debug msg=\"GET https://r/v2/\"\n"), "");
  EXPECT_EQ(notice_in(""), "");
  EXPECT_EQ(notice_in("Too many requests to"), "");
}

TEST(SkopeoFailure, shows_the_last_sentence_only) {
  const auto error = explain_failure(
      "level=warning msg=\"first\"\nlevel=fatal msg=\"say \\\"x\\\" loud\"\nmore", "r/i:t");
  EXPECT_TRUE(error.message.ends_with("say \"x\" loud")) << error.message;
  EXPECT_FALSE(error.message.contains("first"));
  const auto named = explain_failure(
      "level=fatal msg=\"Error parsing image name \\\"docker://r/i:t\\\": reading it\"\n", "r/i:t");
  EXPECT_TRUE(named.message.ends_with("t cannot be fetched: reading it")) << named.message;
}

TEST(RegistryHost, loopback_and_link_local_are_known_by_their_spelling) {
  for (const auto* host :
       {"localhost", "localhost:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]:5000", "0.0.0.0"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  EXPECT_FALSE(is_loopback("ghcr.io"));
  EXPECT_FALSE(is_loopback("128.0.0.1"));
  EXPECT_TRUE(is_link_local("169.254.169.254"));
  EXPECT_TRUE(is_link_local("[FE80::1]:80"));
}

}  // namespace
}  // namespace image
