"""A run says what did not run and why. Nothing passes by being skipped (REQUIRE_ALL=1) or cut short."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = (Path(__file__).parent / "conftest.py").read_text(encoding="utf-8")
SUITE = """
import pytest

@pytest.mark.slow
def test_long():
    pass

@pytest.mark.skipif(True, reason="no JDK here")
def test_oracle():
    pass

@pytest.mark.xfail(reason="known")
def test_expected():
    assert 0

def test_quick():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    slow: long\n")
    pytester.makepyfile(SUITE)
    return pytester


def test_the_closing_table_names_what_was_skipped_and_left_out(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("-m", "not slow")
    result.assert_outcomes(passed=1, skipped=1, xfailed=1, deselected=1)
    result.stdout.fnmatch_lines(["*did not run*", "*1  no JDK here", "*1  make test-slow"])


def test_a_run_that_left_nothing_out_says_so(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_quick():\n    pass\n")
    pytester.runpytest_subprocess().stdout.fnmatch_lines(["everything ran"])


def test_a_required_test_may_not_be_skipped(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUIRE_ALL", "1")
    result = suite.runpytest_subprocess()
    result.assert_outcomes(passed=2, errors=1, xfailed=1)
    result.stdout.fnmatch_lines(["*skipped although REQUIRE_ALL=1: no JDK here*"])


def test_a_required_module_may_not_skip_itself(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUIRE_ALL", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_library')\n")
    assert pytester.runpytest_subprocess().ret != pytest.ExitCode.OK


def test_a_test_that_runs_on_long_after_the_end_is_interrupted(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("import time\n\ndef test_long():\n    time.sleep(600)\n")
    # Not until the end of this test, or no other would begin.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTS_END_AT", "1")
        result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
