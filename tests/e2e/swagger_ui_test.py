"""/docs: the API's document as a page that needs nothing but the gateway."""

import gzip
import re

import httpx
import pytest

from deployment import ROOT, error_of

TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
         "css": "text/css; charset=utf-8", "png": "image/png",
         "txt": "text/plain; charset=utf-8"}
LICENCE = "docs/swagger-ui.LICENSE.txt"
is_fetched = (ROOT / "build" / "swagger-ui" / "VERSION").exists()
needs_files = pytest.mark.skipif(not is_fetched, reason="Swagger UI could not be fetched")


@pytest.fixture(scope="module")
def anyone(deployed):
    """Without a token, and with no coding that it has not asked for."""
    with httpx.Client(base_url=deployed.url, headers={"accept-encoding": "identity"}) as client:
        yield client


@pytest.fixture(scope="module")
def page(anyone):
    answer = anyone.get("/docs")
    assert answer.status_code == 200
    return answer


@needs_files
def test_every_file_of_the_page_is_served_with_its_type(anyone, page):
    names = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(names) == 5, names
    for name in [*names, LICENCE]:
        answer = anyone.get(f"/{name}")
        assert answer.status_code == 200, name
        if name.startswith("docs/"):
            assert answer.headers["content-type"] == TYPES[name.rsplit(".", 1)[1]]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert len(answer.content) > 50, name
    assert page.headers["content-type"] == TYPES["html"]


@needs_files
def test_the_page_names_no_other_host_and_its_policy_allows_none(page):
    assert "//" not in page.text
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy and "*" not in policy and "unsafe-eval" not in policy


@needs_files
def test_a_file_is_kept_by_its_tag_and_comes_in_gzip(anyone):
    plain = anyone.get("/docs/swagger-ui.css")
    tag = plain.headers["etag"]
    assert "max-age=" in plain.headers["cache-control"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again = anyone.get("/docs/swagger-ui.css", headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert anyone.get("/docs/swagger-ui.css",
                      headers={"if-none-match": '"other"'}).status_code == 200
    with anyone.stream("GET", "/docs/swagger-ui.css",
                       headers={"accept-encoding": "gzip"}) as coded:
        assert coded.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(coded.iter_raw())) == plain.content
    head = anyone.head("/docs/swagger-ui.css")
    assert (head.headers["content-length"], head.content) == (str(len(plain.content)), b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2findex.html", "VERSION", "swagger-ui"])
def test_another_name_is_not_found(anyone, name):
    assert error_of(anyone.get(f"/docs/{name}")) == (404, "not_found")


@pytest.mark.skipif(is_fetched, reason="this build has Swagger UI")
def test_a_build_without_it_says_so(anyone):
    assert error_of(anyone.get("/docs")) == (404, "not_found")
