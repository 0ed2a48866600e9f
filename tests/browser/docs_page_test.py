"""/docs in a real browser (Debian's chromium), which may speak to the gateway only."""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

WAIT_MS = 15_000


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium")
    assert program, "the Debian package chromium is not installed"
    with sync_playwright() as playwright:
        # Its own sandbox does not start for root.
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser, deployed):
    """The page once it shows the routes; every host but the gateway is as if it were not there, and
    nothing that the browser complained of is forgiven."""
    complaints, elsewhere = [], []
    made = browser.new_page()
    made.set_default_timeout(WAIT_MS)
    made.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    made.on("pageerror", lambda error: complaints.append(str(error)))

    def decide(route):
        if route.request.url.startswith(f"{deployed.url}/"):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    made.route("**/*", decide)
    made.goto(f"{deployed.url}/docs")
    expect(made.locator(".info .title")).to_contain_text("Sandbox Gateway", timeout=WAIT_MS)
    yield made
    made.close()
    assert not complaints
    assert not [url for url in elsewhere if not url.startswith("data:")]


def open_operation(page, tag: str, operation: str):
    """The block of an operation, opened and ready to be sent."""
    section = page.locator(".opblock-tag-section", has=page.locator(f"[data-tag={tag}]"))
    section.locator("h3").click()
    block = page.locator(f"#operations-{tag}-{operation}")
    block.locator(".opblock-summary-control").click()
    block.get_by_role("button", name="Try it out").click()
    return block


def execute(block) -> str:
    """Sends it; the status of the answer."""
    block.get_by_role("button", name="Execute").click()
    status = block.locator(".live-responses-table .response-col_status").last
    return status.inner_text().split()[0]


def test_every_group_of_routes_is_shown(page, api):
    document = api.get("/openapi.json").json()
    expect(page.locator("h3.opblock-tag")).to_have_count(len(document["tags"]), timeout=WAIT_MS)
    page.locator("h3.opblock-tag").first.click()
    expect(page.locator("#operations-sandboxes-createSandbox")).to_be_visible()


def test_a_route_is_tried_with_the_token_that_was_given(page, deployed):
    block = open_operation(page, "tokens", "me")
    page.locator("button.authorize").click()
    ours = page.locator(".auth-container", has=page.locator("#auth-bearer-value"))
    ours.locator("#auth-bearer-value").fill(deployed.token)
    ours.locator(".auth-btn-wrapper .authorize").click()
    page.locator(".auth-btn-wrapper .btn-done").first.click()
    assert execute(block) == "200"
    answer = block.locator(".live-responses-table .response-col_description").last
    expect(answer).to_contain_text('"subject"')


def test_a_route_without_a_token_is_tried(page):
    assert execute(open_operation(page, "service", "healthz")) == "200"
