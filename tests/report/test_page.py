"""The report in a browser: charts, the list of errors, keyboard, sizes. Needs Chromium."""

import json
import shutil
import time

import numpy
import pytest

from spacy_bilstm_crf.report.page import ReportData, write_report
from spacy_bilstm_crf.report.scored import Gold, Predicted, ScoredDoc
from spacy_bilstm_crf.scaling import Scaling

LABELS = ("LOC", "ORG", "PER")
SCALING = Scaling(1.2, (0.25, 0.0, -1.5))
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Chromium: apt-get install chromium chromium-driver"
)
N_ERRORS = 10_000


def make_docs(n_docs):
    """Documents with every kind of error, some with what could break a page."""
    docs = []
    for i in range(n_docs):
        text = f"Nr {i}: Anna Kaya of </script><b>Acme</b> moved to Lisbon & Osl\u00f8."
        person, place = text.index("Anna"), text.index("Lisbon")
        gold = [Gold(person, person + 9, "PER"), Gold(place, place + 6, "LOC")]
        prob = (i % 97) / 97
        found = [
            [Predicted(person, person + 4, "PER", prob)],
            [Predicted(person, person + 9, "PER", prob), Predicted(place, place + 6, "ORG", 0.4)],
            [Predicted(person, person + 9, "PER", prob), Predicted(place, place + 6, "LOC", 1 - prob / 2)],
            [Predicted(0, 2, "ORG", prob), Predicted(place, place + 14, "ORG", 0.2)],
        ][i % 4]
        docs.append(ScoredDoc(text, gold, [prob, None], found, []))
    return docs


def make_data(docs):
    tags = ["O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BIES")]
    transitions = numpy.random.default_rng(0).normal(size=(len(tags) + 1, len(tags) + 1)).astype("float32")
    transitions[transitions < -1] = numpy.nan
    return ReportData("en_model <1>", "test.spacy", docs, LABELS, 0.0, SCALING, tags, transitions)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("vl_convert")
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(make_data(make_docs(N_ERRORS // 2)), path)
    return path


def test_the_head_says_how_probabilities_were_scaled(page):
    head = " ".join(page.read_text(encoding="utf8").split("<nav", 1)[0].split())
    assert "Threshold 0, temperature 1.200, biases LOC +0.25, ORG +0.00, PER -1.50." in head


@pytest.fixture(scope="module")
def browser():
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


def resize(browser, width, height, scheme="light"):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


@pytest.fixture
def opened(browser, page):
    resize(browser, 1280, 900)
    browser.get(page.as_uri())
    deadline = time.monotonic() + 30
    while not read_column(browser, "Document") and time.monotonic() < deadline:
        time.sleep(0.1)
    return browser


def read_column(browser, name):
    script = (
        "return [...document.querySelectorAll(`#errors td[data-name='${arguments[0]}']`)].map(td => td.textContent)"
    )
    return browser.execute_script(script, name)


def choose(browser, id_, value):
    script = "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
    browser.execute_script(
        f"{script} e.dispatchEvent(new Event('change')); e.dispatchEvent(new Event('input'))", id_, value
    )


def count(browser):
    text = browser.execute_script("return document.getElementById('count').textContent")
    return int(text.split(" of ")[1].split(" ")[0].replace(",", ""))


def test_the_page_is_whole_without_a_browser(page):
    text = page.read_text(encoding="utf8")
    assert text.count("<svg") == 7
    assert "en_model &lt;1&gt;" in text
    data = text.split('id="mistakes">')[1].split("</script>")[0]
    mistakes = json.loads(data)
    assert len(mistakes) >= N_ERRORS * 0.6
    assert "</script><b>Acme" in mistakes[0]["t"]
    assert page.stat().st_size < 5_000_000


@needs_chromium
def test_charts_are_drawn_and_nothing_complains(opened):
    assert opened.get_log("browser") == []
    sizes = opened.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(s => [s.getBoundingClientRect().width, "
        "s.querySelectorAll('path, rect, text').length])"
    )
    assert len(sizes) == 7
    assert all(width > 150 and n_shapes > 10 for width, n_shapes in sizes)
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


@needs_chromium
def test_errors_are_sorted(opened):
    certain = [float(text) for text in read_column(opened, "P(predicted)")]
    assert len(certain) == 50
    assert certain == sorted(certain, reverse=True)
    button = opened.find_element("css selector", "#errors th[data-key=kind] button")
    button.click()
    kinds = read_column(opened, "Kind")
    assert kinds[0] == "boundary"
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    button.click()
    assert read_column(opened, "Kind")[0] == "spurious"
    choose(opened, "sort", "doc up")
    documents = [int(text) for text in read_column(opened, "Document")]
    assert documents == sorted(documents)


@needs_chromium
def test_errors_are_filtered(opened):
    total = count(opened)
    choose(opened, "kind", "1")
    assert set(read_column(opened, "Kind")) == {"label"}
    of_kind = count(opened)
    assert 0 < of_kind < total
    choose(opened, "label", "PER")
    assert count(opened) == 0
    choose(opened, "kind", "")
    assert 0 < count(opened) < total
    choose(opened, "label", "")
    choose(opened, "words", "nr 77:")
    assert {text.split(":")[0] for text in read_column(opened, "Text")} == {"Nr 77"}
    choose(opened, "words", "")
    assert count(opened) == total


@needs_chromium
def test_gold_and_predicted_are_marked(opened):
    choose(opened, "kind", "0")
    marks = opened.execute_script(
        "return [...document.querySelector('#errors td.c').querySelectorAll('mark')]"
        ".map(mark => [mark.className, mark.textContent])"
    )
    assert marks == [["gp", "Anna"], ["g", " Kaya"]]


@needs_chromium
def test_pages_are_turned_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    first = read_column(opened, "Document")
    assert not opened.find_element("id", "previous").is_enabled()
    opened.find_element("id", "next").send_keys(Keys.ENTER)
    assert read_column(opened, "Document") != first
    opened.find_element("id", "previous").send_keys(Keys.SPACE)
    assert read_column(opened, "Document") == first


@needs_chromium
def test_ten_thousand_errors_stay_usable(opened):
    assert count(opened) > N_ERRORS * 0.6
    start = time.perf_counter()
    for words in ("n", "nr", "nr 1", ""):
        choose(opened, "words", words)
    choose(opened, "sort", "gold up")
    assert time.perf_counter() - start < 5
    assert opened.execute_script("return document.querySelectorAll('#errors tbody tr').length") == 50


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_phones_and_dark_rooms(opened, width, scheme):
    resize(opened, width, 844, scheme)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    light = opened.execute_script(
        "const c = document.createElement('canvas').getContext('2d');"
        "const at = (n) => { c.fillStyle = getComputedStyle(document.body).getPropertyValue(n); c.fillRect(0, 0, 1, 1);"
        "return c.getImageData(0, 0, 1, 1).data[1]; };"
        "return [at('--paper'), at('--ink')]"
    )
    assert (light[0] < light[1]) == (scheme == "dark")
    inks = opened.execute_script(
        "return [...new Set([...document.querySelectorAll('figure svg text')].map(t => getComputedStyle(t).fill))]"
    )
    body = opened.execute_script("return getComputedStyle(document.body).color")
    assert inks == [body]


@needs_chromium
def test_everything_has_a_name_for_those_who_do_not_see(opened):
    nameless = opened.execute_script(
        "return [...document.querySelectorAll('select, input, button, [role=region], [role=img], form')]"
        ".filter(e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.ariaLabel).map(e => e.outerHTML)"
    )
    assert nameless == []
    assert opened.execute_script("return document.querySelectorAll('h1').length") == 1
    assert opened.execute_script("return document.documentElement.lang") == "en"
    targets = opened.execute_script(
        "return [...document.querySelectorAll('a')].map(a => !!document.querySelector(a.hash))"
    )
    assert all(targets)


def test_a_report_on_nothing_that_was_found(tmp_path):
    pytest.importorskip("vl_convert")
    docs = [ScoredDoc("Anna left.", [Gold(0, 4, "PER")], [0.1], [], []), ScoredDoc("", [], [], [], [])]
    write_report(make_data(docs), tmp_path / "report.html")
    assert "nan" in (tmp_path / "report.html").read_text(encoding="utf8")
